"""The filter on a worker's system calls: a BPF program, assembled here and handed to the kernel.

The filter is a deny list with errors, not kills: a library that tries something and can live
without it does. The instruction encoding is that of `linux/filter.h` and `linux/seccomp.h`.
"""

import ctypes
import errno
import os
import platform
import struct

from workbench.isolation.syscalls import NUMBERS, number, syscall

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000
_AT_NUMBER, _AT_MACHINE, _AT_ARGUMENTS = 0, 4, 16
"""Offsets in `struct seccomp_data`; both machines are little-endian, so low halves come first."""
_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT = 0x40000000

_SET_MODE_FILTER, _ALL_THREADS = 1, 1
_CLONE_THREAD = 0x00010000
_CLONE_NEW_NAMESPACE = 0x7E020000
_AF_UNIX = 1
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_PROCESSES = ("execve", "execveat", "fork", "vfork")

Instruction = tuple[int, int, int, int]
"""Operation, jump if true, jump if false, operand."""


class Program:
    """A filter being assembled. Each rule is complete in itself, so jumps stay short."""

    def __init__(self) -> None:
        machine = platform.machine()
        if machine not in _AUDIT:
            raise OSError(errno.ENOSYS, f"no system call table for {machine}")
        self._code: list[Instruction] = [
            (_LOAD, 0, 0, _AT_MACHINE),
            (_EQUAL, 1, 0, _AUDIT[machine]),
            (_RETURN, 0, 0, _KILL),
            (_LOAD, 0, 0, _AT_NUMBER),
        ]
        if machine == "x86_64":
            self._code += [(_AT_LEAST, 0, 1, _X32_BIT), (_RETURN, 0, 0, _KILL)]

    def deny(self, *names: str, error: int = errno.EPERM) -> None:
        """These calls fail, whatever their arguments."""
        for name in names:
            if (call := number(name)) is not None:
                self._code += [(_EQUAL, 0, 1, call), (_RETURN, 0, 0, _ERROR | error)]

    def only(self, name: str, argument: int, *values: int) -> None:
        """The call fails unless the low 32 bits of this argument are one of `values`."""
        allowed = [(_EQUAL, len(values) - i, 0, value) for i, value in enumerate(values)]
        self._guard(name, argument, [*allowed, (_RETURN, 0, 0, _ERROR | errno.EPERM)])

    def never(self, name: str, argument: int, *values: int) -> None:
        """The call fails if the low 32 bits of this argument are one of `values`."""
        refused: list[Instruction] = []
        for value in values:
            refused += [(_EQUAL, 0, 1, value), (_RETURN, 0, 0, _ERROR | errno.EPERM)]
        self._guard(name, argument, refused)

    def clone(self, *, threads_only: bool) -> None:
        """New threads yes, new namespaces no, new processes as told.

        `clone3` hides its flags behind a pointer; told that it does not exist, libc uses `clone`.
        """
        self.deny("clone3", error=errno.ENOSYS)
        rule: list[Instruction] = [
            (_ANY_BIT, 0, 1, _CLONE_NEW_NAMESPACE),
            (_RETURN, 0, 0, _ERROR | errno.EPERM),
        ]
        if threads_only:
            rule += [(_ANY_BIT, 1, 0, _CLONE_THREAD), (_RETURN, 0, 0, _ERROR | errno.EPERM)]
        self._guard("clone", 0, rule)

    def _guard(self, name: str, argument: int, rule: list[Instruction]) -> None:
        call = number(name)
        if call is None:
            return
        self._code += [
            (_EQUAL, 0, len(rule) + 2, call),
            (_LOAD, 0, 0, _AT_ARGUMENTS + 8 * argument),
            *rule,
            (_RETURN, 0, 0, _ALLOW),
        ]

    def install(self) -> None:
        """Put the filter on every thread of this process, for good. Raises OSError."""
        code = [*self._code, (_RETURN, 0, 0, _ALLOW)]
        raw = b"".join(struct.pack("<HBBI", *instruction) for instruction in code)
        program = ctypes.create_string_buffer(raw, len(raw))
        fprog = struct.pack("HxxxxxxP", len(code), ctypes.addressof(program))
        pointer = ctypes.create_string_buffer(fprog, len(fprog))
        mode, flags = ctypes.c_ulong(_SET_MODE_FILTER), ctypes.c_ulong(_ALL_THREADS)
        if straggler := syscall("seccomp", mode, flags, pointer):
            raise OSError(errno.ESRCH, f"thread {straggler} did not take the filter")


def worker_filter(*, processes: bool, device: bool, alone: bool) -> Program:
    """What a worker may not do.

    `processes`: it may fork and exec. `device`: a GPU driver runs in it, which may want anonymous
    memory files. `alone`: it sees no process but its own (a PID namespace), so it may send
    signals; otherwise only to itself.
    """
    program = Program()
    program.deny(*NUMBERS)
    program.clone(threads_only=not processes)
    program.only("socketpair", 0, _AF_UNIX)
    program.never("ioctl", 1, _TIOCSTI, _TIOCLINUX)
    if not processes:
        program.deny(*_PROCESSES)
    if not device:
        program.deny("memfd_create", "memfd_secret")
    if not alone:
        own = os.getpid()
        program.only("kill", 0, own, 0)
        program.only("tgkill", 0, own)
        program.only("prlimit64", 0, own, 0)
    return program


def forbid_processes() -> None:
    """From now on this process and its threads start no program and no process. Raises OSError."""
    program = Program()
    program.deny(*_PROCESSES)
    program.clone(threads_only=True)
    program.install()
