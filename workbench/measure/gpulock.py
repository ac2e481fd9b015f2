"""One timing per GPU at a time, across all processes and users of a machine.

A file per GPU in a folder that everybody can write to, locked by `flock`: the kernel releases it
when its holder dies. Timings hold it alone; other work on the GPU, which only must not run beside
a timing, shares it. A second file is the queue's head: whoever waits to be alone holds it, and who
comes to share meanwhile waits behind. Without it a timing would wait until no session shares by
chance, which with four of them hardly ever happens.
"""

import contextlib
import fcntl
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from workbench.errors import WorkbenchError

FOLDER = Path("/tmp")  # noqa: S108 -- not TMPDIR: users of one machine must meet there
_LOCKS = Path("/proc/locks")
_announced: dict[Path, int] = {}
"""Descriptors that hold the files by which others see this process."""
_announcing = threading.Lock()
_LOOK_SECONDS = 0.02
_TRIES = 10
"""At opening: another process may create or remove the file between two calls."""


class GpuBusy(WorkbenchError):
    """Others held the GPU for as long as one was willing to wait."""


@contextlib.contextmanager
def gpu_lock(
    uuid: str,
    *,
    shared: bool = False,
    seconds: float = 1800.0,
    waits: Callable[[], None] = lambda: None,
    folder: Path = FOLDER,
) -> Iterator[None]:
    """Hold the GPU's lock for the body, alone or `shared`; `waits` is called if others hold it.

    Raises GpuBusy after `seconds`, WorkbenchError when the file is none that can be locked.
    """
    _announce(uuid, folder)
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    until = time.monotonic() + seconds
    told: list[None] = []

    def tell() -> None:
        if not told:
            told.append(None)
            waits()

    head, lock = (folder / f"workbench-gpu-{uuid}.{part}" for part in ("next", "lock"))
    # Shared too, so that those who come to share do not wait for each other here.
    waiting = _locked(head, how, until, tell)
    try:
        held = _locked(lock, how, until, tell)
    finally:
        os.close(waiting)
    try:
        yield
    finally:
        os.close(held)


def neighbours(uuid: str, *, folder: Path = FOLDER) -> set[int]:
    """Other processes that time on this GPU under the same lock, holding it or not at this moment.

    The kernel's own list of locks tells their numbers, whoever's they are; empty where it does not.
    """
    mine = _announced.get(folder / _presence(uuid))
    if mine is None:
        return set()
    inode = os.fstat(mine).st_ino
    try:
        fields = [line.split() for line in _LOCKS.read_text().splitlines()]
    except OSError:
        return set()
    shared = [(int(f[4]), f[5]) for f in fields if f[1] == "FLOCK" and f[3] == "READ"]
    # By our own entry: a layered file system shows another device here than to `stat`.
    files = {name for pid, name in shared if pid == os.getpid() and name.endswith(f":{inode}")}
    return {pid for pid, name in shared if name in files} - {os.getpid()}


def _presence(uuid: str) -> str:
    return f"workbench-gpu-{uuid}.here"


def _announce(uuid: str, folder: Path) -> None:
    """Be seen by the others for as long as this process lives: its workers stay between timings.

    Not being seen is no fault: others then take our workers for strangers.
    """
    path = folder / _presence(uuid)
    with _announcing:
        if path in _announced and _is_still(path, _announced[path]):
            return
        with contextlib.suppress(WorkbenchError):
            descriptor = _opened(path)
            # Nobody ever takes it alone, so this does not wait.
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if (old := _announced.get(path)) is not None:
                os.close(old)
            _announced[path] = descriptor


def _locked(path: Path, how: int, until: float, waits: Callable[[], None]) -> int:
    """A locked descriptor of the file that is there: a cleaner of /tmp may have removed the one
    that was opened, and others would meet at the next."""
    for _ in range(_TRIES):
        descriptor = _opened(path)
        try:
            _lock(descriptor, path, how, until, waits)
            if _is_still(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    raise _unusable(path, "it comes and goes")


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        there = path.lstat()
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))


def _lock(descriptor: int, path: Path, how: int, until: float, waits: Callable[[], None]) -> None:
    began = time.monotonic()
    while True:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            waits()
            if (now := time.monotonic()) >= until:
                raise GpuBusy(
                    f"the GPU was not free within {now - began:.0f} s",
                    where=str(path),
                    todo="another workbench is timing there; wait for it, or use another GPU",
                ) from None
            time.sleep(_LOOK_SECONDS)
        except OSError as fault:
            raise _unusable(path, fault.strerror or str(fault)) from fault
        else:
            return


def _opened(path: Path) -> int:
    """The file's descriptor. Read-only: enough for a lock, and what is another user's opens too.

    Opening with O_CREAT would fail on another user's file in a sticky folder
    (`fs.protected_regular`), so an existing file is opened first.
    """
    plain = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        for _ in range(_TRIES):
            with contextlib.suppress(FileNotFoundError):
                return _regular(os.open(path, plain), path)
            with contextlib.suppress(FileExistsError):
                made = os.open(path, plain | os.O_CREAT | os.O_EXCL, 0o666)
                with contextlib.suppress(OSError):
                    # Past the umask, so that others can open it.
                    os.fchmod(made, 0o666)
                return made
    except OSError as fault:
        raise _unusable(path, fault.strerror or str(fault)) from fault
    raise _unusable(path, "it comes and goes")


def _regular(descriptor: int, path: Path) -> int:
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise _unusable(path, "it is no regular file")


def _unusable(path: Path, why: str) -> WorkbenchError:
    return WorkbenchError(
        f"the GPU's lock file cannot be used: {why}",
        where=str(path),
        todo="remove it, or ask its owner to",
    )
