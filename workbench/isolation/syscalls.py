"""System calls that a worker may not make, with their numbers, and libc as ctypes sees it.

Numbers are the kernel's own and never change once given: `asm/unistd_64.h` for x86-64,
`asm-generic/unistd.h` for aarch64 (None where that machine never had the call).
"""

import ctypes
import os
import platform

NUMBERS: dict[str, tuple[int | None, int | None]] = {
    # Other processes: their memory, their descriptors, their signals.
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "kcmp": (312, 272),
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    # The file system's shape, and files that Landlock does not guard: modes, owners, attributes.
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "truncate": (76, 45),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "fanotify_init": (300, 262),
    "lookup_dcookie": (212, 18),
    # The kernel and the machine.
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "syslog": (103, 116),
    "iopl": (172, None),
    "ioperm": (173, None),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "vhangup": (153, 58),
    # Secrets of the user's session.
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # Namespaces.
    "unshare": (272, 97),
    "setns": (308, 268),
    # Things that outlive the process.
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    # Every kind of socket but a pair: a path in the file system can lead to a daemon with rights.
    "socket": (41, 198),
}
"""Denied with EPERM in every flavor."""

ALSO: dict[str, tuple[int | None, int | None]] = {
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "execve": (59, 221),
    "execveat": (322, 281),
    "fork": (57, None),
    "vfork": (58, None),
    "clone": (56, 220),
    "clone3": (435, 435),
    "kill": (62, 129),
    "tgkill": (234, 131),
    "prlimit64": (302, 261),
    "socketpair": (53, 199),
    "ioctl": (16, 29),
    "seccomp": (317, 277),
    "landlock_create_ruleset": (444, 444),
    "landlock_add_rule": (445, 445),
    "landlock_restrict_self": (446, 446),
}
"""Calls that we make ourselves, or that are denied by flavor or by argument."""

MACHINES = {"x86_64": 0, "aarch64": 1}


def number(name: str) -> int | None:
    """The call's number on this machine; None where it has none or the machine is unknown."""
    column = MACHINES.get(platform.machine())
    if column is None:
        return None
    return (NUMBERS.get(name) or ALSO[name])[column]


_libc = ctypes.PyDLL(None, use_errno=True)


def syscall(name: str, *arguments: object) -> int:
    """Make a raw system call. Raises OSError with its errno; ENOSYS where it has no number here.

    The interpreter's lock is held over the call, so `clone` returns twice as it does in C.
    """
    call = number(name)
    if call is None:
        raise OSError(38, f"{name} has no number on {platform.machine()}")
    ctypes.set_errno(0)
    result: int = _libc.syscall(ctypes.c_long(call), *arguments)
    if result < 0:
        raise _failed(name)
    return result


def prctl(option: int, value: int) -> None:
    """`prctl(option, value, 0, 0, 0)`. Raises OSError."""
    zero = ctypes.c_ulong(0)
    ctypes.set_errno(0)
    if _libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero) < 0:
        raise _failed("prctl")


def mount(source: str, target: str, kind: str | None, flags: int) -> None:
    """`mount(2)` without data. Raises OSError."""
    ctypes.set_errno(0)
    name = None if kind is None else kind.encode()
    if _libc.mount(source.encode(), target.encode(), name, ctypes.c_ulong(flags), None) < 0:
        raise _failed(f"mount {target}")


def drop_capabilities() -> None:
    """Give up every capability, also those that a user namespace lent. Raises OSError."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this thread
    nothing = (ctypes.c_uint32 * 6)()
    ctypes.set_errno(0)
    if _libc.capset(header, nothing) < 0:
        raise _failed("capset")


def _failed(what: str) -> OSError:
    number_ = ctypes.get_errno()
    return OSError(number_, f"{what}: {os.strerror(number_)}")
