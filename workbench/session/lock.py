"""The lock by which one engine at a time owns a session; the engine's death releases it."""

import errno
import fcntl
import hashlib
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from msgspec import Struct

from workbench.errors import WorkbenchError
from workbench.paths import runtime_home

_PATIENCE = 0.5
"""Seconds to try for a lock that an engine holds: it may be about to end."""
_READERS = 10.0
"""Seconds to try for a lock without a holder's id: somebody is asking who holds it, which takes
microseconds, unless a busy machine stops them in between."""


class Holder(Struct, frozen=True, kw_only=True):
    """The engine that owns a session."""

    pid: int
    socket: str
    """Path of its Unix socket; empty when it serves none."""


class SessionBusyError(WorkbenchError):
    """Another engine owns the session."""

    def __init__(self, session: str, holder: Holder | None) -> None:
        who = f"process {holder.pid}" if holder else "another process"
        super().__init__(
            f"the session is being run by {who}",
            where=session,
            todo=f"`workbench attach {session}` shows it; two engines cannot own one session",
        )
        self.holder = holder


class EngineLock:
    """The right to write to a session. Held until closed or until the process dies.

    The lock is `flock(2)` on an open file, so a forked child that keeps the file open keeps the
    session too; programs that are started (exec) do not.
    """

    def __init__(self, path: Path, *, session: str, socket: str = "") -> None:
        """Take the lock; SessionBusyError when an engine holds it."""
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._fd = os.open(path, flags, 0o600)
        except OSError as fault:
            raise _unlockable(path, fault) from fault
        if not _patiently(self._fd, fcntl.LOCK_EX):
            holder = _read(self._fd)
            os.close(self._fd)
            raise SessionBusyError(session, holder)
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, msgspec.json.encode(Holder(pid=os.getpid(), socket=socket)), 0)
        except OSError as fault:
            os.close(self._fd)
            raise _unlockable(path, fault) from fault

    def close(self) -> None:
        """Release the session; closing twice is harmless."""
        if self._fd >= 0:
            os.ftruncate(self._fd, 0)
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


def _unlockable(path: Path, fault: OSError) -> WorkbenchError:
    todo = "check that the folder is yours and writable"
    if fault.errno in {errno.ENOSPC, errno.EDQUOT}:
        todo = "free some space on that disk"
    what = f"the session cannot be locked: {fault.strerror}"
    return WorkbenchError(what, where=str(path), todo=todo)


def holder(path: Path) -> Holder | None:
    """Who holds the lock now; None when nobody does. Needs no right to write.

    Process 0 stands for one that has just taken the lock and not written its id yet.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        if _try(fd, fcntl.LOCK_SH):
            return None
        return _read(fd) or Holder(pid=0, socket="")
    finally:
        os.close(fd)


def socket_path(folder: Path) -> Path:
    """Where the engine of a session serves: short, since a Unix socket's path ends at 107 bytes."""
    digest = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()
    return runtime_home() / f"{digest[:16]}.sock"


def _patiently(fd: int, kind: int) -> bool:
    began = time.monotonic()
    while not _try(fd, kind):
        patience = _READERS if _read(fd) is None else _PATIENCE
        if time.monotonic() - began > patience:
            return False
        time.sleep(0.01)
    return True


def _try(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(fd: int) -> Holder | None:
    try:
        return msgspec.json.decode(os.pread(fd, 4096, 0), type=Holder)
    except msgspec.DecodeError:
        return None
