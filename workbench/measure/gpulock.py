"""One timing per GPU at a time, across all processes and users of a machine.

The lock is a file per GPU in a folder that every user can write to, locked with `flock`, so the
kernel releases it when its holder dies. Timings take it exclusively; other work on the GPU, which
must not run beside a timing, shares it.

A second file per GPU keeps timings from starving. A process that waits for exclusive use holds
this file shared meanwhile, and a process that wants to share the GPU first waits until nobody
does. Without it, a timing would wait until by chance no session shares the GPU, which with four
sessions hardly ever happens.
"""

import contextlib
import fcntl
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from workbench.errors import WorkbenchError

FOLDER = Path("/tmp")  # noqa: S108 -- not TMPDIR: users of one machine must meet there
_LOCKS = Path("/proc/locks")
_announced: dict[Path, int] = {}
"""Descriptors of the files that show other workbenches that this process is here."""
_announcing = threading.Lock()
_noting: list["Note"] = []
_POLL_SECONDS = 0.02
_GLANCES, _GLANCE_SECONDS = 5, 0.001
"""How often, and how far apart, a sharer looks whether somebody waits for exclusive use."""
_QUEUE_SECONDS = 5.0
"""Least time to try to enter the queue for exclusive use: its holders leave within moments."""
_TRIES = 10
"""Attempts to open a file, which another process may create or remove between two calls."""


Note = Callable[[str], contextlib.AbstractContextManager[None]]
"""Is entered with the GPU's UUID for as long as this process holds a lock that counts."""


@contextlib.contextmanager
def noted(note: Note) -> Iterator[None]:
    """Have every hold of a GPU by this process noted during the body."""
    _noting.append(note)
    try:
        yield
    finally:
        _noting.remove(note)


class GpuBusy(WorkbenchError):
    """Other processes held the GPU for longer than the caller was willing to wait."""


@contextlib.contextmanager
def gpu_lock(
    uuid: str,
    *,
    shared: bool = False,
    seconds: float = 1800.0,
    waits: Callable[[], None] = lambda: None,
    folder: Path = FOLDER,
    counted: bool = True,
) -> Iterator[None]:
    """Hold the GPU's lock during the body, exclusively or `shared`.

    `counted` holds are on somebody's bill, and `noted`.

    `waits` is called once if others hold it. Raises GpuBusy after `seconds`, and WorkbenchError
    when the lock file cannot be used.
    """
    _announce(uuid, folder)
    until = time.monotonic() + seconds
    told: list[None] = []

    def tell() -> None:
        if not told:
            told.append(None)
            waits()

    wanted, lock = (folder / f"workbench-gpu-{uuid}.{part}" for part in ("next", "lock"))
    if shared:
        held = _waited(partial(_beside, wanted, lock), lock, until, tell)
    else:
        held = _alone(wanted, lock, until, tell)
    try:
        with contextlib.ExitStack() as notes:
            for note in tuple(_noting) if counted else ():
                notes.enter_context(note(uuid))
            yield
    finally:
        os.close(held)


def neighbours(uuid: str, *, folder: Path = FOLDER) -> set[int]:
    """Ids of other processes that use this GPU under the same lock, whether or not they hold it.

    Read from the kernel's list of locks, for all users; empty where it cannot be read.
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
    # Matched through our own entry: a layered file system shows another device here than in `stat`.
    files = {name for pid, name in shared if pid == os.getpid() and name.endswith(f":{inode}")}
    return {pid for pid, name in shared if name in files} - {os.getpid()}


def _presence(uuid: str) -> str:
    return f"workbench-gpu-{uuid}.here"


def _announce(uuid: str, folder: Path) -> None:
    """Show others that this process uses the GPU until it ends: workers stay between timings.

    A failure is harmless: others then take our workers for unknown processes.
    """
    path = folder / _presence(uuid)
    with _announcing:
        if path in _announced and _is_still(path, _announced[path]):
            return
        with contextlib.suppress(WorkbenchError):
            descriptor = _opened(path)
            # Nobody ever locks this file exclusively, so this does not wait.
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if (old := _announced.get(path)) is not None:
                os.close(old)
            _announced[path] = descriptor


def _alone(wanted: Path, lock: Path, until: float, waits: Callable[[], None]) -> int:
    """A descriptor that holds the lock exclusively; new sharers wait from now on."""
    # Only sharers that look whether somebody waits hold this file exclusively, for a moment.
    soon = max(until, time.monotonic() + _QUEUE_SECONDS)
    waiting = _waited(partial(_tried, wanted, fcntl.LOCK_SH), wanted, soon, lambda: None)
    try:
        return _waited(partial(_tried, lock, fcntl.LOCK_EX), lock, until, waits)
    finally:
        os.close(waiting)


def _beside(wanted: Path, lock: Path) -> int | None:
    """A descriptor that shares the lock; None if somebody holds it exclusively or waits to."""
    for _ in range(_GLANCES):
        # Two sharers that look at the same moment block each other, so one failure means nothing.
        if (seen := _tried(wanted, fcntl.LOCK_EX)) is not None:
            try:
                return _tried(lock, fcntl.LOCK_SH)
            finally:
                os.close(seen)
        time.sleep(_GLANCE_SECONDS)
    return None


def _waited(
    take: Callable[[], int | None], path: Path, until: float, waits: Callable[[], None]
) -> int:
    """Call `take` until it returns a descriptor; raises GpuBusy at `until`."""
    began = time.monotonic()
    while (held := take()) is None:
        waits()
        if (now := time.monotonic()) >= until:
            raise GpuBusy(
                f"the GPU was not free within {now - began:.0f} s",
                where=str(path),
                todo="another workbench is timing there; wait for it, or use another GPU",
            )
        time.sleep(_POLL_SECONDS)
    return held


def _tried(path: Path, how: int) -> int | None:
    """A descriptor of the file, locked with `how`; None where others hold a conflicting lock.

    Tries again where a cleaner of /tmp removed the file after it was opened: other processes would
    lock its successor.
    """
    for _ in range(_TRIES):
        descriptor = _opened(path)
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
            if _is_still(path, descriptor):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except OSError as fault:
            os.close(descriptor)
            raise _unusable(path, fault.strerror or str(fault)) from fault
        os.close(descriptor)
    raise _unusable(path, "it comes and goes")


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        there = path.lstat()
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))


def _opened(path: Path) -> int:
    """The file's descriptor, read-only: that is enough for a lock, and opens other users' files.

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
    raise _unusable(path, "it is not a regular file")


def _unusable(path: Path, why: str) -> WorkbenchError:
    return WorkbenchError(
        f"the GPU's lock file cannot be used: {why}",
        where=str(path),
        todo="remove it, or ask its owner to",
    )
