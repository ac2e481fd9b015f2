"""Files that a worker with shared device memory leaves in /dev/shm, outside its scratch folder.

torch counts the holders of a shared tensor there, and CUDA keeps files beside them. Their names
carry the id of the process that made them. A worker without a PID namespace has the ids that we
see; a file belongs to it if it is also owned by us and no older than the worker.
"""

import contextlib
import os
import stat
from collections.abc import Collection
from pathlib import Path

FOLDER = Path("/dev/shm")  # noqa: S108 -- torch chose the place


def counters(pids: Collection[int], since: float) -> list[tuple[Path, int]]:
    """Files of these processes with the bytes they take, none of before `since` (epoch seconds)."""
    found: list[tuple[Path, int]] = []
    for pid in pids:
        for path in (*FOLDER.glob(f"torch_{pid}_*"), *FOLDER.glob(f"cuda.shm.*.{pid:x}.*")):
            with contextlib.suppress(OSError):
                state = path.lstat()
                ours = state.st_uid == os.getuid() and state.st_ctime >= since
                if ours and not stat.S_ISDIR(state.st_mode):
                    found.append((path, state.st_blocks * 512))
    return found


def in_use() -> set[Path]:
    """Files there that this process has mapped or open, by whatever name."""
    names = {
        line.split(maxsplit=5)[-1] for line in Path("/proc/self/maps").read_text().splitlines()
    }
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            names.add(str(descriptor.readlink()))
    return {path for path in map(Path, names) if path.parent == FOLDER and path.exists()}


def remove_counters(pids: Collection[int], since: float) -> None:
    """Remove them, whatever is in them; for processes that have ended."""
    for path, _ in counters(pids, since):
        with contextlib.suppress(OSError):
            path.unlink()
