"""The process that has torch and triton loaded and forks a worker whenever the judge asks for one.

Started by `forkserver.Forkserver` as `python -m workbench.isolation.zygote FD`, in an environment
of its own. It stays single-threaded, never touches CUDA and never runs a job: it forks a keeper
(`keeper.py`) into fresh namespaces, which forks the worker. It ends when the judge's end of the
socket closes, in whatever way; keepers watch sockets of their own for the same.
"""

import gc
import importlib
import os
import re
import resource
import signal
import socket
import sys
import tempfile
import traceback
from pathlib import Path
from typing import NamedTuple, NoReturn

import msgspec
from msgspec import Struct

from workbench.isolation import namespaces
from workbench.isolation.context import JobContext
from workbench.isolation.device import start_device
from workbench.isolation.keeper import become_keeper, keep
from workbench.isolation.landlock import Grant
from workbench.isolation.records import Flavor, Limits
from workbench.isolation.sandbox import Confinement, confine
from workbench.isolation.scratch import furnish
from workbench.isolation.serve import serve
from workbench.isolation.wire import Hello

_CHANNEL = 100
"""The worker's end of the channel: far from the numbers that a program closes or reopens, as far
as a lower limit of the machine's (`ulimit -n`) allows."""
_FAILED = 70
_PRIVATE_COUNT_SINCE = (5, 14)
"""Linux version since which RLIMIT_NPROC counts within a user namespace."""


class Setup(Struct, frozen=True, kw_only=True):
    """First message to a zygote."""

    flavor: Flavor
    device: str
    preload: tuple[str, ...]
    confinement: Confinement


class Fork(Struct, frozen=True, kw_only=True):
    """Ask for a worker; channel, stdout, stderr and leash come along as file descriptors.

    The answer is a message with the keeper's pidfd.
    """

    scratch: str
    limits: Limits
    confinement: Confinement
    """The setup's, or an easier one where the GPU needs it."""


class _Birth(NamedTuple):
    """All that a new worker has to know."""

    setup: Setup
    request: Fork
    grants: list[Grant]
    spaces: int
    """Namespaces it is forked into."""
    threads: int
    """Threads of the zygote; another thread's locks would stay locked for ever in a worker."""
    channel: int
    out: int
    err: int
    leash: int


def main() -> None:
    """Serve the judge on the socket whose descriptor is the first argument."""
    os.environ.pop("PYTHONPATH", None)
    door = socket.socket(fileno=int(sys.argv[1]))
    setup = msgspec.msgpack.decode(door.recv(1 << 20), type=Setup)
    # Before anything is loaded, because every try is a fork.
    spaces = namespaces.strictest() if setup.confinement.namespaces else 0
    # As `gc.freeze` advises: not collecting while torch is imported takes a quarter off the start,
    # and collecting before the freeze would tear holes into pages that the workers share.
    gc.disable()
    for module in setup.preload:
        importlib.import_module(module)
    _check_untouched()
    grants = setup.confinement.common_grants()
    gc.freeze()
    gc.enable()
    threads = len(list(Path("/proc/self/task").iterdir()))
    # Ended keepers vanish by themselves: nobody here waits for them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    door.send(b"ready")
    while True:
        raw, descriptors, _, _ = socket.recv_fds(door, 1 << 20, 4)
        if not raw:
            return
        request = msgspec.msgpack.decode(raw, type=Fork)
        allowed = spaces if request.confinement.namespaces else 0
        pidfd = _bear(door, _Birth(setup, request, grants, allowed, threads, *descriptors))
        socket.send_fds(door, [b"forked"], [pidfd])
        for descriptor in (pidfd, *descriptors):
            os.close(descriptor)


def _check_untouched() -> None:
    """A fork inherits neither a CUDA context nor any thread but its own."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        raise RuntimeError("a preloaded module started CUDA, which no forked worker could use")


def _bear(door: socket.socket, birth: _Birth) -> int:
    """Fork a keeper; its pidfd."""
    uid, gid = os.geteuid(), os.getegid()
    pid = namespaces.fork(birth.spaces)
    if pid:
        return os.pidfd_open(pid)
    # Whatever goes wrong from here on must not return into the zygote.
    try:
        door.close()
        os.dup2(birth.err, 2)
        _keep(birth, uid, gid)
    except BaseException:  # noqa: BLE001 -- the process ends here, and says why on its stderr
        traceback.print_exc()
    os._exit(_FAILED)


def _keep(birth: _Birth, uid: int, gid: int) -> NoReturn:
    """The keeper: fork the worker, then wait for it."""
    private_proc = namespaces.settle(birth.spaces, uid, gid)
    become_keeper()
    worker = os.fork()
    if worker == 0:
        _work(birth, private_proc=private_proc)
    for descriptor in (birth.channel, birth.out, birth.err):
        os.close(descriptor)
    keep(worker, birth.leash, alone=bool(birth.spaces & namespaces.PROCESSES))


def _work(birth: _Birth, *, private_proc: bool) -> NoReturn:
    """The worker: become private, limited and confined, then serve the judge's calls."""
    setup, limits = birth.setup, birth.request.limits
    channel = _own_descriptors(birth)
    os.setsid()
    scratch = Path(birth.request.scratch)
    _settle(scratch)
    _limit(limits, birth.spaces)
    plan = birth.request.confinement
    fault = start_device(setup.device, limits) if plan.device_first else ""
    layers = confine(plan, birth.grants, scratch, spaces=birth.spaces, private_proc=private_proc)
    if not plan.device_first:
        fault = start_device(setup.device, limits)
    bench = JobContext(
        scratch=scratch,
        flavor=setup.flavor,
        limits=limits,
        device=setup.device,
        grants=birth.grants,
    )
    rows = [(layer.name, layer.ok, layer.detail) for layer in layers]
    rows.append(("single-threaded forkserver", birth.threads == 1, f"{birth.threads}"))
    serve(channel, bench, Hello(layers=rows, pid=os.getpid(), fault=fault))
    # Neither an exit handler nor a destructor nor a thread of the candidate is waited for.
    os._exit(0)


def _own_descriptors(birth: _Birth) -> socket.socket:
    """Nothing stays open but an empty stdin, the two output pipes and the channel."""
    null = os.open(os.devnull, os.O_RDONLY)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    kept = os.dup2(birth.channel, min(_CHANNEL, most - 1), inheritable=False)
    for source, target in ((null, 0), (birth.out, 1), (birth.err, 2)):
        os.dup2(source, target)
    os.closerange(3, kept)
    os.closerange(kept + 1, most)
    return socket.socket(fileno=kept)


def _limit(limits: Limits, spaces: int) -> None:
    bounds = [
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_CPU, limits.cpu_seconds, limits.cpu_seconds + 1),
        (resource.RLIMIT_DATA, limits.memory_bytes, limits.memory_bytes),
        (resource.RLIMIT_FSIZE, limits.file_bytes, limits.file_bytes),
        (resource.RLIMIT_NOFILE, limits.open_files, limits.open_files),
        (resource.RLIMIT_MSGQUEUE, 0, 0),
    ]
    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    counted_apart = release and (int(release[1]), int(release[2])) >= _PRIVATE_COUNT_SINCE
    if spaces & namespaces.USER and counted_apart:
        bounds.append((resource.RLIMIT_NPROC, limits.tasks, limits.tasks))
    for what, soft, hard in bounds:
        ceiling = resource.getrlimit(what)[1]
        if ceiling != resource.RLIM_INFINITY:
            # The machine's own limit may be lower; a limit can only be tightened.
            soft, hard = min(soft, ceiling), min(hard, ceiling)  # noqa: PLW2901 -- both are bounds
        resource.setrlimit(what, (soft, hard))


def _settle(scratch: Path) -> None:
    """Point everything that writes files at the scratch folder."""
    # The person's own may take away what a compiler's cache needs.
    os.umask(0o077)
    os.environ |= furnish(scratch)
    tempfile.tempdir = None
    os.chdir(scratch)


if __name__ == "__main__":
    main()
    os._exit(0)
