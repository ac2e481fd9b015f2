"""Append-only files of JSON lines, written before use, that survive the death of their writer.

Events and paid exchanges are journaled as they happen; git gets them with the transition they
belong to. One process writes a journal (the holder of the engine lock); anyone reads it, by polling
`stat`. A line counts once its newline is there. A torn last line is invisible to readers and cut
off when the journal is next opened for writing, or at once when the disk was full.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Generic, NamedTuple, Self, TypeVar

import msgspec

from workbench.errors import WorkbenchError

T = TypeVar("T")
_CHUNK = 1 << 20
_LAST_CAP = 8 << 20
"""Bytes from the end in which `last_lines` looks; ours."""


class Journal:
    """The writing end. Sequence numbers are line numbers: they count from 1 and have no gaps."""

    def __init__(self, path: Path) -> None:
        """Open or make the file and repair its end; WorkbenchError when it cannot be written."""
        self.path = path
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        self._fd = -1
        try:
            self._fd = os.open(path, flags, 0o600)
            if not stat.S_ISREG(os.fstat(self._fd).st_mode):
                raise _unwritable(path, "it is not a plain file")
            self._end, self._lines = _whole_lines(self._fd)
            if os.fstat(self._fd).st_size != self._end:
                # Only then: what is whole keeps the time of its last line.
                os.ftruncate(self._fd, self._end)
            sync_folder(path.parent)
        except OSError as fault:
            self.close()
            raise _unwritable(path, fault.strerror or str(fault)) from fault
        except WorkbenchError:
            self.close()
            raise

    @property
    def next_seq(self) -> int:
        """The number that the next line will get."""
        return self._lines + 1

    def append(self, encode: Callable[[int], bytes], *, durable: bool) -> int:
        """Write one line and return its sequence number, which `encode` is given first.

        When `durable`, the line is on disk before this returns. When the disk is full, the file is
        as it was and WorkbenchError says so.
        """
        line = encode(self.next_seq)
        if b"\n" in line:
            raise ValueError("a journal's line cannot hold a newline")
        try:
            _write_all(self._fd, line + b"\n")
            if durable:
                os.fdatasync(self._fd)
        except OSError as fault:
            os.ftruncate(self._fd, self._end)
            raise _unwritable(self.path, fault.strerror or str(fault)) from fault
        self._end += len(line) + 1
        self._lines += 1
        return self._lines

    def close(self) -> None:
        """Close the file; closing twice is harmless."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Tail:
    """The reading end: whole lines as they appear, from an offset on."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.path = path
        self.offset = offset
        """Bytes already given out; always just behind a newline."""

    def poll(self) -> list[bytes]:
        """Lines that were completed since the last call; costs one `stat` when there are none."""
        try:
            if self.path.lstat().st_size <= self.offset:
                return []
            fd = _open_plain(self.path)
        except FileNotFoundError:
            return []
        with os.fdopen(fd, "rb") as file:
            file.seek(self.offset)
            data = file.read()
        lines = data.split(b"\n")[:-1]
        self.offset += sum(map(len, lines)) + len(lines)
        return lines


class Records(NamedTuple, Generic[T]):
    """Lines of a journal, decoded."""

    records: list[T]
    damaged: int
    """Lines that could not be decoded, and were left out."""


def read_records(path: Path, type_: type[T]) -> Records[T]:
    """Every whole line; a line that does not decode is counted, never fatal."""
    decoder = msgspec.json.Decoder(type_)
    records: list[T] = []
    damaged = 0
    for line in Tail(path).poll():
        try:
            records.append(decoder.decode(line))
        except msgspec.DecodeError:
            damaged += 1
    return Records(records, damaged)


def last_lines(path: Path, count: int) -> list[bytes]:
    """The newest whole lines, oldest first, without reading the rest of the file.

    A line that begins more than 8 MiB before the end is left out, and all before it.
    """
    try:
        fd = _open_plain(path)
    except FileNotFoundError:
        return []
    with os.fdopen(fd, "rb") as file:
        end = start = file.seek(0, os.SEEK_END)
        chunks: list[bytes] = []
        newlines = 0
        # One newline more than lines: what lies before the first newline may be half a line.
        while start > 0 and newlines <= count and end - start < _LAST_CAP:
            step = min(start, 1 << 16)
            start -= step
            file.seek(start)
            chunks.append(file.read(step))
            newlines += chunks[-1].count(b"\n")
    lines = b"".join(reversed(chunks)).split(b"\n")[:-1]
    if start > 0:
        del lines[:1]
    return lines[-count:] if count else []


def sync_folder(folder: Path) -> None:
    """Wait until a folder's new names are on disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _open_plain(path: Path) -> int:
    """A plain file for reading: never through a symlink, never a pipe that would block."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise WorkbenchError(
            "a journal of the session is not a plain file",
            where=str(path),
            todo="move it away; every version is in git, and needs no journal",
        )
    return fd


def _whole_lines(fd: int) -> tuple[int, int]:
    """Bytes up to and with the last newline, and how many lines these are."""
    end = lines = at = 0
    while chunk := os.pread(fd, _CHUNK, at):
        lines += chunk.count(b"\n")
        last = chunk.rfind(b"\n")
        if last >= 0:
            end = at + last + 1
        at += len(chunk)
    return end, lines


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _unwritable(path: Path, why: str) -> WorkbenchError:
    return WorkbenchError(
        f"the session's journal cannot be written: {why}",
        where=str(path),
        todo="free some space or make the folder writable, then `workbench resume`",
    )
