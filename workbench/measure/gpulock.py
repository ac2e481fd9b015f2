"""One timing per GPU at a time, across all processes and users of a machine.

A file per GPU in a folder that everybody can write to, locked by `flock`: the kernel releases it
when its holder dies. Timings hold it alone; other work on the GPU, which only must not run beside
a timing, shares it. Whoever waits to be alone shares a second file meanwhile, and who comes to
share the GPU waits until nobody does: a timing would else wait until no session shares by chance,
which with four of them hardly ever happens. So timings, which are short, come one after the other,
and what is shared runs side by side in between.
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
"""Descriptors that hold the files by which others see this process."""
_announcing = threading.Lock()
_LOOK_SECONDS = 0.02
_GLANCES, _GLANCE_SECONDS = 5, 0.001
_MOMENT_SECONDS = 5.0
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


def _alone(wanted: Path, lock: Path, until: float, waits: Callable[[], None]) -> int:
    """A descriptor that holds the lock for itself; who comes to share waits from now on."""
    # In nobody's way but of those who look whether somebody waits, for a moment.
    soon = max(until, time.monotonic() + _MOMENT_SECONDS)
    waiting = _waited(partial(_tried, wanted, fcntl.LOCK_SH), wanted, soon, lambda: None)
    try:
        return _waited(partial(_tried, lock, fcntl.LOCK_EX), lock, until, waits)
    finally:
        os.close(waiting)


def _beside(wanted: Path, lock: Path) -> int | None:
    """A descriptor that shares the lock; None where somebody has it alone, or waits for that."""
    for _ in range(_GLANCES):
        # Two who look at the same moment see each other: not to be taken for somebody who waits.
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
    """What `take` gives, asked until it gives something."""
    began = time.monotonic()
    while (held := take()) is None:
        waits()
        if (now := time.monotonic()) >= until:
            raise GpuBusy(
                f"the GPU was not free within {now - began:.0f} s",
                where=str(path),
                todo="another workbench is timing there; wait for it, or use another GPU",
            )
        time.sleep(_LOOK_SECONDS)
    return held


def _tried(path: Path, how: int) -> int | None:
    """A locked descriptor of the file that is there, None where others hold it: a cleaner of /tmp
    may have removed the one that was opened, and others would meet at the next."""
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
