"""Folders that workers may fill: private, swept when their judge died without doing so."""

import contextlib
import fcntl
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from workbench.errors import WorkbenchError

PLACES = {
    "HOME": "home",
    "TMPDIR": "tmp",
    "TRITON_HOME": "home",
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "CUDA_CACHE_PATH": "cuda",
}
"""Variables by which programs find where to write, and their folders in a scratch folder."""

_ENTRY_CAP = 50_000
"""Entries of one scratch folder; a Triton cache of a whole search has some thousands."""


class ScratchRoot:
    """One judge's folder of scratch folders, `$TMPDIR/workbench-scratch-UID/PID-XXXXXXXX`.

    A lock is held on it while the judge lives, however it ends; whoever makes the next root
    removes those whose lock is free. Raises WorkbenchError when another user owns the place.
    """

    def __init__(self) -> None:
        base = Path(tempfile.gettempdir()) / f"workbench-scratch-{os.getuid()}"
        _own(base)
        with _locked(base / ".lock"):
            for stale in base.iterdir():
                if stale.is_dir() and (lock := _try_lock(stale / ".lock")) is not None:
                    # What cannot be removed now may be at the next start.
                    with contextlib.suppress(OSError):
                        remove_tree(stale)
                    os.close(lock)
            self.path = _new(f"{os.getpid()}-", base)
            held = _try_lock(self.path / ".lock")
        assert held is not None, "nobody else knows a folder made this moment"  # noqa: S101 -- for the type checker
        self._lock = held

    def folder(self, name: str) -> Path:
        """A new empty folder for one worker."""
        return _new(f"{name}-", self.path)

    def close(self) -> None:
        """Remove the folder and all in it. Idempotent."""
        if self.path.exists():
            remove_tree(self.path)
            os.close(self._lock)


def _new(prefix: str, base: Path) -> Path:
    """A new folder of ours in `base`, whatever the person's umask takes from it."""
    made = Path(tempfile.mkdtemp(prefix=prefix, dir=base))
    made.chmod(0o700)
    return made


def _own(base: Path) -> None:
    base.mkdir(mode=0o700, exist_ok=True)
    state = base.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid():
        raise WorkbenchError(
            "the folder for scratch files belongs to somebody else",
            where=str(base),
            todo="set TMPDIR to a folder of your own",
        )
    base.chmod(0o700)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _try_lock(path: Path) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def furnish(folder: Path) -> dict[str, str]:
    """Make the folders of `PLACES` below a scratch folder; the variables that point there."""
    for name in PLACES.values():
        (folder / name).mkdir(exist_ok=True)
    return {variable: str(folder / name) for variable, name in PLACES.items()}


def used_bytes(folder: Path) -> int | None:
    """Disk blocks below `folder` in bytes; None when it holds more entries than it may.

    What vanishes meanwhile counts nothing; a path too long to follow counts as too many.
    """
    total, entries, waiting = 0, 0, [str(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as found:
                for entry in found:
                    entries += 1
                    if entries > _ENTRY_CAP:
                        return None
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    with contextlib.suppress(FileNotFoundError):
                        total += entry.stat(follow_symlinks=False).st_blocks * 512
        except (FileNotFoundError, PermissionError):
            continue
        except OSError:
            return None
    return total


def remove_tree(folder: Path) -> None:
    """Remove `folder` and all in it, whatever a hostile process left: no mode and no depth helps.

    Folders inside are moved up to the top as they are found, so no path grows long and nothing
    recurses. Nothing may be writing there any more. Raises OSError where even that fails.
    """
    waiting = [folder]
    while waiting:
        current = waiting.pop()
        current.chmod(0o700)
        with os.scandir(current) as found:
            entries = list(found)
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)  # noqa: PTH108 -- a hostile folder holds many
                continue
            inner = Path(entry.path)
            inner.chmod(0o700)
            if current != folder:
                inner = inner.rename(folder / secrets.token_hex(16))
            waiting.append(inner)
        if current != folder:
            current.rmdir()
    folder.rmdir()
