"""Records kept as JSON lines: a crash loses at most the line that was being written."""

import os
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import msgspec
from msgspec import Struct

from workbench.errors import WorkbenchError

T = TypeVar("T")


def append(file: Path, record: Struct) -> None:
    """Append a record, which is on disk when this returns. Raises WorkbenchError if it cannot be.

    A last line that was cut off by a crash is removed first.
    """
    try:
        with file.open("ab+") as lines:
            lines.truncate(_whole(lines))
            lines.write(msgspec.json.encode(record) + b"\n")
            lines.flush()
            os.fsync(lines.fileno())
    except OSError as fault:
        raise WorkbenchError(
            f"nothing can be kept there: {fault.strerror}",
            where=str(file),
            todo="free some space, or name another file",
        ) from fault


def _whole(lines: BinaryIO) -> int:
    """Bytes up to the end of the last complete line."""
    end = lines.seek(0, os.SEEK_END)
    if end:
        lines.seek(end - 1)
        if lines.read() != b"\n":
            lines.seek(0)
            return lines.read().rfind(b"\n") + 1
    return end


def read(file: Path, kind: type[T] | Any, *, what: str, command: str) -> list[T]:  # noqa: ANN401 -- unions are no types to mypy
    """All records; a last line that was cut off by a crash is left out.

    Raises WorkbenchError, with the line's number, for a line that is no `kind`. For its text,
    `what` says what such a line is, and `command` is what writes such a file.
    """
    todo = f"name a file that `{command}` wrote"
    try:
        whole = file.read_bytes().split(b"\n")[:-1]
    except OSError as fault:
        says = f"the file cannot be read: {fault.strerror}"
        raise WorkbenchError(says, where=str(file), todo=todo) from fault
    found: list[T] = []
    for number, line in enumerate(whole, start=1):
        try:
            found.append(msgspec.json.decode(line, type=kind))
        except msgspec.DecodeError as fault:
            where = f"{file}, line {number}"
            raise WorkbenchError(f"this is {what}: {fault}", where=where, todo=todo) from fault
    return found
