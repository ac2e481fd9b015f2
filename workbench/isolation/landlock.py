"""Landlock by raw system calls: from here on this process reaches only the files it is granted.

Numbers and structures are those of `linux/landlock.h`. Rights that a kernel does not know yet
are left out of what it handles; `version` says how far it goes.
"""

import ctypes
import os
import struct
from collections.abc import Iterable
from enum import IntFlag
from pathlib import Path

from workbench.isolation.syscalls import syscall


class Right(IntFlag):
    """What may be done with files below a path."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    REMOVE_DIR = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_CHAR = 1 << 6
    MAKE_DIR = 1 << 7
    MAKE_REG = 1 << 8
    MAKE_SOCK = 1 << 9
    MAKE_FIFO = 1 << 10
    MAKE_BLOCK = 1 << 11
    MAKE_SYM = 1 << 12
    REFER = 1 << 13
    TRUNCATE = 1 << 14
    IOCTL_DEV = 1 << 15


READ = Right.READ_FILE | Right.READ_DIR
RUN = READ | Right.EXECUTE
DEVICE = READ | Right.WRITE_FILE | Right.IOCTL_DEV | Right.TRUNCATE
OWN = (
    READ
    | Right.WRITE_FILE
    | Right.TRUNCATE
    | Right.REFER
    | Right.REMOVE_DIR
    | Right.REMOVE_FILE
    | Right.MAKE_DIR
    | Right.MAKE_REG
    | Right.MAKE_SYM
)
"""Everything in a folder of one's own, but no devices, sockets, pipes, and nothing to execute."""

_ON_FILES = Right.EXECUTE | Right.WRITE_FILE | Right.READ_FILE | Right.TRUNCATE | Right.IOCTL_DEV
"""The kernel refuses any other right in a rule whose path is not a folder."""

_SINCE = ((1, (1 << 13) - 1), (2, Right.REFER), (3, Right.TRUNCATE), (5, Right.IOCTL_DEV))
_NETWORK_SINCE, _TCP_BIND_AND_CONNECT = 4, 0b11
_SCOPE_SINCE, _ABSTRACT_SOCKETS_AND_SIGNALS = 6, 0b11
_ASK_VERSION = 1
_PATH_BENEATH = 1

Grant = tuple[Path, Right]


def version() -> int:
    """The kernel's Landlock ABI, at least 1. Raises OSError where it has none or it is off."""
    return syscall(
        "landlock_create_ruleset", None, ctypes.c_size_t(0), ctypes.c_uint32(_ASK_VERSION)
    )


def restrict(grants: Iterable[Grant]) -> str:
    """Confine this thread, and what it starts, to `grants`; returns what is in force in words.

    Needs `no_new_privs`. Paths that do not exist are skipped: they grant nothing. Raises OSError.
    """
    abi = version()
    handled = Right(0)
    for since, rights in _SINCE:
        if abi >= since:
            handled |= rights
    network = _TCP_BIND_AND_CONNECT if abi >= _NETWORK_SINCE else 0
    scopes = _ABSTRACT_SOCKETS_AND_SIGNALS if abi >= _SCOPE_SINCE else 0
    raw = struct.pack("<QQQ", handled, network, scopes)
    # An older kernel knows a shorter structure, and refuses a longer one unless the rest is zero.
    ruleset = syscall("landlock_create_ruleset", raw, ctypes.c_size_t(len(raw)), ctypes.c_uint32(0))
    try:
        for path, rights in grants:
            _allow(ruleset, path, rights & handled)
        syscall("landlock_restrict_self", ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)
    extra = [word for word, on in (("network", network), ("signals", scopes)) if on]
    return f"ABI {abi}: " + ", ".join(["files", *extra])


def _allow(ruleset: int, path: Path, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError, NotADirectoryError):
        return
    try:
        if not path.is_dir():
            rights &= _ON_FILES
        if rights:
            rule = struct.pack("<Qi", rights, descriptor)
            syscall(
                "landlock_add_rule",
                ctypes.c_int(ruleset),
                ctypes.c_int(_PATH_BENEATH),
                rule,
                ctypes.c_uint32(0),
            )
    finally:
        os.close(descriptor)
