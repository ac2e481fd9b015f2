"""Fork into namespaces of one's own: own processes, no network, no shared memory of others."""

import contextlib
import ctypes
import os
import signal
from pathlib import Path

from workbench.isolation.syscalls import mount, syscall

FILES = 0x00020000
IPC = 0x08000000
USER = 0x10000000
PROCESSES = 0x20000000
NETWORK = 0x40000000

NAMES = {
    USER: "user namespace",
    PROCESSES: "pid namespace",
    NETWORK: "network namespace",
    IPC: "ipc namespace",
}
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
_NOSUID_NODEV_NOEXEC = 2 | 4 | 8

_LADDER = (
    USER | PROCESSES | NETWORK | IPC | FILES,
    USER | PROCESSES | NETWORK | IPC,
    USER | NETWORK,
    # Root in a container that has no user namespaces to give.
    PROCESSES | NETWORK | IPC | FILES,
    0,
)
"""Tried from the strictest down; the kernel, a container or AppArmor may refuse any of them."""


def fork(flags: int) -> int:
    """`os.fork` into new namespaces; 0 in the child. Raises OSError.

    The caller must be single-threaded: no library is notified of the fork. The child must call
    `settle` and then only `os.fork`, wait and exit.
    """
    if not flags:
        return os.fork()
    zero = ctypes.c_ulong(0)
    return syscall("clone", ctypes.c_ulong(flags | signal.SIGCHLD), zero, zero, zero, zero)


def settle(flags: int, uid: int, gid: int) -> bool:
    """In the child of `fork`: keep the user's own ids, take a private /proc; whether it got one.

    Raises OSError where the ids cannot be mapped: then the namespaces are of no use.
    """
    if flags & USER:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    if not (flags & FILES and flags & PROCESSES):
        return False
    mount("none", "/", None, _MS_REC | _MS_PRIVATE)
    with contextlib.suppress(OSError):
        # Refused where something already hides part of /proc, as in most containers.
        mount("proc", "/proc", "proc", _NOSUID_NODEV_NOEXEC)
        return True
    return False


def strictest() -> int:
    """The first set of namespaces that a trial child could enter and settle in. Forks."""
    uid, gid = os.geteuid(), os.getegid()
    for flags in _LADDER:
        try:
            child = fork(flags)
        except OSError:
            continue
        if child == 0:
            _trial(flags, uid, gid)
        _, status = os.waitpid(child, 0)
        if status == 0:
            return flags
    return 0


def _trial(flags: int, uid: int, gid: int) -> None:
    code = 1
    with contextlib.suppress(OSError):
        settle(flags, uid, gid)
        code = 0
    os._exit(code)
