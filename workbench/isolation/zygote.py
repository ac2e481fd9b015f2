"""The process that has torch and triton loaded and forks a worker whenever the judge asks for one.

Started by `workshop.Workshop` as `python -m workbench.isolation.zygote FD`, in an environment of
its own. It stays single-threaded, never touches CUDA and never runs a job: it forks a *keeper*,
which forks the worker, waits for it, tells the judge how it ended and takes its orphans along.
It ends when the judge's end of the socket closes, and its keepers end with it.
"""

import ctypes
import gc
import importlib
import os
import resource
import signal
import socket
import struct
import sys
import tempfile
from pathlib import Path
from typing import NoReturn

import msgspec
from msgspec import Struct

from workbench.isolation.context import JobContext
from workbench.isolation.records import Flavor, Limits
from workbench.isolation.serve import flush_and_exit, serve
from workbench.isolation.wire import Hello

STATUS = struct.Struct("<ii")
"""What a keeper writes when its worker has ended: exit code or -1, signal or 0."""

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


class Setup(Struct, frozen=True, kw_only=True):
    """First message to a zygote."""

    flavor: Flavor
    device: str
    preload: tuple[str, ...]


class Fork(Struct, frozen=True, kw_only=True):
    """Ask for a worker; channel, stdout, stderr and status come along as file descriptors."""

    scratch: str
    limits: Limits


class Forked(Struct, frozen=True, kw_only=True):
    """The keeper's pid; its pidfd comes along."""

    pid: int


def main() -> None:
    """Serve the judge on the socket whose descriptor is the first argument."""
    os.environ.pop("PYTHONPATH", None)
    door = socket.socket(fileno=int(sys.argv[1]))
    setup = msgspec.msgpack.decode(door.recv(1 << 20), type=Setup)
    for module in setup.preload:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    door.send(b"ready")
    while True:
        raw, descriptors, _, _ = socket.recv_fds(door, 1 << 20, 4)
        if not raw:
            return
        request = msgspec.msgpack.decode(raw, type=Fork)
        pid = os.fork()
        if pid == 0:
            door.close()
            _keep(setup, request, descriptors)
        pidfd = os.pidfd_open(pid)
        socket.send_fds(door, [msgspec.msgpack.encode(Forked(pid=pid))], [pidfd])
        for descriptor in (pidfd, *descriptors):
            os.close(descriptor)


def _keep(setup: Setup, request: Fork, descriptors: list[int]) -> NoReturn:
    """The keeper: fork the worker, wait, report, leave nothing behind."""
    channel, out, err, status = descriptors
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    worker = os.fork()
    if worker == 0:
        os.close(status)
        _work(setup, request, channel, out, err)
    for descriptor in (channel, out, err):
        os.close(descriptor)
    while True:
        pid, code = os.waitpid(-1, 0)
        if pid == worker:
            break
    exited = os.WEXITSTATUS(code) if os.WIFEXITED(code) else -1
    killed = os.WTERMSIG(code) if os.WIFSIGNALED(code) else 0
    os.write(status, STATUS.pack(exited, killed))
    os._exit(0)


def _work(setup: Setup, request: Fork, channel: int, out: int, err: int) -> NoReturn:
    """The worker: become private and limited, then serve the judge's calls."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    kept = os.dup2(channel, 100, inheritable=False)
    for source, target in ((null, 0), (out, 1), (err, 2)):
        os.dup2(source, target)
    os.closerange(3, kept)
    os.closerange(kept + 1, 4096)
    _limit(request.limits)
    scratch = Path(request.scratch)
    _settle(scratch)
    bench = JobContext(
        scratch=scratch, flavor=setup.flavor, limits=request.limits, device=setup.device
    )
    serve(socket.socket(fileno=kept), bench, Hello(layers=[]))
    flush_and_exit(0)
    raise AssertionError


def _limit(limits: Limits) -> None:
    for what, soft, hard in (
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_CPU, limits.cpu_seconds, limits.cpu_seconds + 1),
        (resource.RLIMIT_DATA, limits.memory_bytes, limits.memory_bytes),
        (resource.RLIMIT_FSIZE, limits.file_bytes, limits.file_bytes),
        (resource.RLIMIT_NOFILE, limits.open_files, limits.open_files),
    ):
        resource.setrlimit(what, (soft, hard))


def _settle(scratch: Path) -> None:
    """Point everything that writes files at the scratch folder."""
    for variable, folder in (
        ("HOME", "home"),
        ("TMPDIR", "tmp"),
        ("TRITON_CACHE_DIR", "triton"),
        ("TORCHINDUCTOR_CACHE_DIR", "inductor"),
        ("CUDA_CACHE_PATH", "cuda"),
    ):
        path = scratch / folder
        path.mkdir()
        os.environ[variable] = str(path)
    tempfile.tempdir = None
    os.chdir(scratch)


if __name__ == "__main__":
    main()
    os._exit(0)
