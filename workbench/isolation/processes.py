"""What /proc says of a tree of processes: who is in it, and what all of them use together."""

import contextlib
import math
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct

_PROC = Path("/proc")
_LISTS_CHILDREN = (_PROC / "thread-self" / "children").exists()
"""Kernels without CONFIG_PROC_CHILDREN do not; then every process has to be asked."""


_CPU_TIME = 2
"""CPUCLOCK_SCHED of linux/posix-timers.h: with a process's number it makes its clock's."""
_DYING_SECONDS = 0.002
"""Between two looks at processes that have been killed and not yet buried."""


class Use(Struct, kw_only=True):
    """What a tree of processes holds at this moment."""

    processes: int = 0
    tasks: int = 0
    """Threads of all of them."""
    memory_bytes: int = 0
    """Resident anonymous and shared memory; pages that a fork shares count for each process."""


class Work(Struct, frozen=True, kw_only=True):
    """Which processes there are at a moment, and what they have computed since they began."""

    pids: tuple[int, ...]
    cpu_seconds: float

    def since(self, before: "Work") -> float:
        """CPU seconds since `before`; infinity where processes came or went meanwhile."""
        return self.cpu_seconds - before.cpu_seconds if self.pids == before.pids else math.inf


def children(pid: int) -> list[int]:
    """The children of `pid`, zombies included; empty when it is gone."""
    if not _LISTS_CHILDREN:
        return [child for child, parent in _parents() if parent == pid]
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in (_PROC / str(pid) / "task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found


def _parents() -> Iterator[tuple[int, int]]:
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # The command's name may hold spaces and brackets; the parent follows the last one.
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                yield int(entry.name), int(fields[1])


def descendants(pid: int) -> list[int]:
    """Every process below `pid`, parents before children."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        for child in children(waiting.pop()):
            found.append(child)
            waiting.append(child)
    return found


def ancestors(pid: int) -> list[int]:
    """The processes above `pid`, its parent first, as far as they can be seen."""
    parents = dict(_parents())
    found: list[int] = []
    while (pid := parents.get(pid, 0)) and pid not in found:
        found.append(pid)
    return found


def use(pids: list[int]) -> Use:
    """What these processes hold; one that has ended meanwhile holds nothing."""
    total = Use()
    for pid in pids:
        with contextlib.suppress(OSError):
            lines = (_PROC / str(pid) / "status").read_text().splitlines()
            fields = dict(line.split(":", 1) for line in lines)
            if fields.get("State", "").split()[:1] == ["Z"]:
                # Ended, if not yet buried; in a container without an init nobody ever may.
                continue
            total.processes += 1
            total.tasks += int(fields.get("Threads", "0"))
            for name in ("RssAnon", "RssShmem"):
                total.memory_bytes += 1024 * int(fields.get(name, "0 kB").split()[0])
    return total


def call_filters(pid: int) -> int | None:
    """The fewest filters on system calls that a thread of `pid` is under; None if not told.

    Kernels before 5.9 do not tell, nor does a process that is gone.
    """
    counts: list[int] = []
    with contextlib.suppress(OSError):
        for task in (_PROC / str(pid) / "task").iterdir():
            with contextlib.suppress(OSError):
                lines = (task / "status").read_text().splitlines()
                counts += [int(li.split()[1]) for li in lines if li.startswith("Seccomp_filters:")]
    return min(counts, default=None)


def work_of(pids: Sequence[int]) -> Work:
    """What these processes have computed, by the kernel's own clocks, which tick in nanoseconds."""
    return Work(pids=tuple(pids), cpu_seconds=sum(work_each(pids).values()))


def work_each(pids: Sequence[int]) -> dict[int, float]:
    """CPU seconds of each of these processes that there still is."""
    found: dict[int, float] = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            found[pid] = time.clock_gettime(~pid << 3 | _CPU_TIME)
    return found


def unlinked_bytes(pids: list[int]) -> int:
    """Bytes of open files that have no name any more, memory files among them."""
    sizes: dict[tuple[int, int], int] = {}
    for pid in pids:
        with contextlib.suppress(OSError):
            for descriptor in os.scandir(_PROC / str(pid) / "fd"):
                with contextlib.suppress(OSError):
                    state = os.stat(descriptor.path)  # noqa: PTH116 -- hot: no Path per file
                    if state.st_nlink == 0:
                        sizes[state.st_dev, state.st_ino] = state.st_blocks * 512
    return sum(sizes.values())


def kill_below(pid: int, seconds: float) -> bool:
    """Kill every process below `pid`, the calling process; True when none is left.

    First all are stopped, again and again until none is new, so that none can fork while the
    others die. The caller must be their reaper (PR_SET_CHILD_SUBREAPER).
    """
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        stopped: set[int] = set()
        while fresh := set(descendants(pid)) - stopped:
            _signal(fresh, signal.SIGSTOP)
            stopped |= fresh
        _signal(stopped, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not children(pid):
            return True
        time.sleep(_DYING_SECONDS)
    return False


def end_others(root: int, kept: int, seconds: float) -> int:
    """Kill all below `root` but `kept`, which starts no process any more; returns how many.

    Who forks meanwhile is found at the next look: it ends when a look finds nobody. Raises
    TimeoutError after `seconds`.
    """
    until = time.monotonic() + seconds
    ended: set[int] = set()
    while others := {pid for pid in descendants(root) if pid != kept and use([pid]).processes}:
        if time.monotonic() > until:
            raise TimeoutError(f"{len(others)} processes could not be ended")
        for pid in others:
            _end_below(root, pid)
        ended |= others
        time.sleep(_DYING_SECONDS)
    return len(ended)


def _end_below(root: int, pid: int) -> None:
    """Kill `pid` if it is below `root`: by a handle, since a number may be another's by now."""
    with contextlib.suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            if pid in descendants(root):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)


def _signal(pids: set[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
