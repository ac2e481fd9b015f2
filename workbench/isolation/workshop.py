"""The judge's side: start zygotes, take workers from them, call jobs, survive what happens."""

import contextlib
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from workbench.errors import WorkbenchError
from workbench.isolation.link import Ended, Late, Link, OverLimit
from workbench.isolation.outcome import JobFailed, WorkerBroke, WorkerDied, WorkerTimedOut
from workbench.isolation.records import Flavor, Layer, Limits
from workbench.isolation.wire import (
    NONCE_BYTES,
    Answer,
    Blob,
    Call,
    Failure,
    FromWorker,
    Hello,
    Reply,
    WireFault,
    cut,
    decode_from_worker,
    frame,
    heads,
)
from workbench.isolation.zygote import Fork, Forked, Setup

_PRELOAD = ("torch", "triton", "workbench.isolation.tensors")
_START_SECONDS = 120.0
_HELLO_SECONDS = 60.0


class Worker:
    """One sandboxed process that runs jobs for one candidate and is then thrown away.

    A context manager. `isolation` is what is really in force (`bubblewrap`,
    `landlock+seccomp` or `process only`), `layers` says it layer by layer. A worker serves one
    call at a time; `close` may be called from another thread to cut a call short.
    """

    def __init__(self, link: Link, scratch: Path, limits: Limits, *, pid: int, pidfd: int) -> None:
        self.isolation = "process only"
        self.layers: tuple[Layer, ...] = ()
        self.pid = pid
        """Of the keeper: the root of every process this worker starts."""
        self.scratch = scratch
        self._link = link
        self._limits = limits
        self._pidfd = pidfd
        self._closed = False
        self._lock = threading.Lock()

    def greet(self) -> Self:
        """Hand over the nonce and wait for the worker's first word. For the workshop alone."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        message, _ = self._exchange([nonce], nonce, 0, _HELLO_SECONDS)
        if not isinstance(message, Hello):
            raise self._broke("said something before its greeting")
        if message.fault:
            self.close()
            raise WorkbenchError(f"a worker could not start: {message.fault}")
        self.layers = tuple(Layer(name=n, ok=ok, detail=d) for n, ok, d in message.layers)
        return self

    def call(
        self,
        job: str,
        request: dict[str, Any],
        tensors: Sequence[Blob] = (),
        *,
        deadline: float | None = None,
    ) -> Reply:
        """Run `job` (`package.module:function`) in the worker and return what it answers.

        `deadline` in seconds from now; default `Limits.wall_seconds`. Raises JobFailed when the job
        raised (the worker can be called again), else WorkerDied, WorkerTimedOut or WorkerBroke:
        then the worker has been killed with everything it started, and its scratch is gone.
        The reply's blobs are views of bytes that the judge owns.
        """
        if self._closed:
            raise WorkerDied("closed")
        nonce = secrets.token_bytes(NONCE_BYTES)
        pieces = frame(nonce, Call(job=job, body=request, blobs=heads(tensors)), tensors)
        seconds = self._limits.wall_seconds if deadline is None else deadline
        message, data = self._exchange(pieces, nonce, self._limits.reply_bytes, seconds)
        match message:
            case Answer(body=body, blobs=described):
                try:
                    return Reply(body=body, blobs=cut(described, memoryview(data)))
                except WireFault as fault:
                    raise self._broke(str(fault)) from fault
            case Failure(kind=kind, message=text, line=line, trace=trace):
                raise JobFailed(kind, text, line, trace)
            case Hello():
                raise self._broke("greeted twice")

    def _exchange(
        self, pieces: Sequence[bytes | memoryview], nonce: bytes, data_cap: int, seconds: float
    ) -> tuple[FromWorker, bytearray]:
        try:
            head, data = self._link.exchange(
                pieces, nonce, data_cap=data_cap, seconds=seconds, watch=lambda: ""
            )
            return decode_from_worker(memoryview(head)), data
        except Ended as end:
            raise self._died(end) from None
        except Late:
            raise WorkerTimedOut(seconds, stderr=self.close()) from None
        except OverLimit as excess:
            raise WorkerDied(str(excess), stderr=self.close()) from None
        except WireFault as fault:
            raise self._broke(str(fault)) from fault
        except BaseException:
            self.close()
            raise

    def _died(self, end: Ended) -> WorkerDied:
        if self._closed:
            return WorkerDied("closed", stderr=self.close())
        how = "lost"
        if end.exit_code is not None:
            how = "exited"
        elif end.signal is not None:
            how = "killed by signal"
        return WorkerDied(how, exit_code=end.exit_code, signal=end.signal, stderr=self.close())

    def _broke(self, fault: str) -> WorkerBroke:
        return WorkerBroke(fault, stderr=self.close())

    def output(self) -> tuple[str, str]:
        """Tails of what the worker wrote to stdout and stderr so far; empty once closed."""
        return ("", "") if self._closed else self._link.output()

    def close(self) -> str:
        """Kill the worker and all it started, remove its scratch; returns its stderr's tail."""
        with self._lock:
            if self._closed:
                return ""
            self._closed = True
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            select.select([self._pidfd], [], [], 30.0)
            os.close(self._pidfd)
            _, err = self._link.output()
            self._link.close()
            shutil.rmtree(self.scratch, ignore_errors=True)
            return err

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _Zygote:
    """The judge's handle on one forkserver."""

    def __init__(self, setup: Setup, environment: dict[str, str]) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-s", "-P", "-X", "faulthandler", "-m"]
        with theirs:
            self._process = subprocess.Popen(
                [*command, "workbench.isolation.zygote", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=environment,
                cwd="/",
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._door = ours
        self._door.settimeout(_START_SECONDS)
        self._lock = threading.Lock()
        try:
            self._door.send(msgspec.msgpack.encode(setup))
            raw = self._door.recv(1 << 16)
        except OSError as fault:
            self.close()
            raise WorkbenchError(f"the {setup.flavor} forkserver did not start: {fault}") from fault
        if not raw:
            self.close()
            raise WorkbenchError(f"the {setup.flavor} forkserver did not start")

    def fork(self, scratch: Path, limits: Limits, descriptors: Sequence[int]) -> tuple[int, int]:
        """A keeper's pid and pidfd."""
        request = msgspec.msgpack.encode(Fork(scratch=str(scratch), limits=limits))
        with self._lock:
            socket.send_fds(self._door, [request], descriptors)
            raw, fds, _, _ = socket.recv_fds(self._door, 1 << 16, 1)
        if not raw or not fds:
            raise WorkbenchError("the forkserver is gone", todo="run the command again")
        return msgspec.msgpack.decode(raw, type=Forked).pid, fds[0]

    def close(self) -> None:
        """Hang up; the zygote and whatever it still keeps end with that."""
        self._door.close()
        try:
            self._process.wait(10.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Workshop:
    """Where workers come from: one warm forkserver per flavor, started on first use.

    `device_index` counts among the GPUs this process may see; None computes on the CPU.
    `preload` names modules that every zygote imports before it forks: job modules, so that a
    worker need not import them. A context manager; safe to use from several threads.
    """

    def __init__(self, *, device_index: int | None = None, preload: Sequence[str] = ()) -> None:
        self._device_index = device_index
        self._preload = tuple(preload)
        self._zygotes: dict[Flavor, _Zygote] = {}
        self._lock = threading.Lock()
        self._workers: list[Worker] = []
        self._folder = Path(tempfile.mkdtemp(prefix="workbench-"))

    def worker(self, flavor: Flavor, limits: Limits = Limits()) -> Worker:  # noqa: B008 - frozen
        """A fresh worker of `flavor`: milliseconds when its zygote is warm, seconds at first.

        Raises WorkbenchError when the forkserver or the worker cannot start.
        """
        zygote = self._zygote(flavor)
        scratch = Path(tempfile.mkdtemp(prefix=f"{flavor}-", dir=self._folder))
        ours, theirs = socket.socketpair()
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        status, status_end = os.pipe()
        given = [theirs.fileno(), out_end, err_end, status_end]
        try:
            pid, pidfd = zygote.fork(scratch, limits, given)
        finally:
            theirs.close()
            for end in (out_end, err_end, status_end):
                os.close(end)
        link = Link(ours, out, err, status, limits.output_bytes)
        worker = Worker(link, scratch, limits, pid=pid, pidfd=pidfd)
        with self._lock:
            self._workers.append(worker)
        return worker.greet()

    def _zygote(self, flavor: Flavor) -> _Zygote:
        with self._lock:
            if flavor not in self._zygotes:
                self._zygotes[flavor] = _Zygote(*self._setting(flavor))
            return self._zygotes[flavor]

    def _setting(self, flavor: Flavor) -> tuple[Setup, dict[str, str]]:
        visible = self._device_index is not None and flavor in (Flavor.CUDA, Flavor.REFERENCE)
        if flavor is Flavor.CUDA and not visible:
            raise WorkbenchError("a CUDA worker was asked for in a workshop without a device")
        preload = () if flavor is Flavor.BARE else _PRELOAD
        setup = Setup(
            flavor=flavor,
            device="cuda:0" if visible else "cpu",
            preload=(*preload, *self._preload),
        )
        return setup, _environment(flavor, self._device_index if visible else None)

    def close(self) -> None:
        """Close every worker and zygote, remove every scratch folder."""
        with self._lock:
            workers, self._workers = self._workers, []
            zygotes, self._zygotes = self._zygotes, {}
        for worker in workers:
            worker.close()
        for zygote in zygotes.values():
            zygote.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _environment(flavor: Flavor, device_index: int | None) -> dict[str, str]:
    """What a zygote is born with: an allow-list of the judge's variables and our own settings."""
    inherited = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "CUDA_HOME", "CC")
    environment = {name: os.environ[name] for name in inherited if name in os.environ}
    environment |= {
        "USER": "worker",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "",
        # The judge's own order: a zygote must find the very modules the judge would.
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p.startswith("/")),
    }
    if flavor is Flavor.INTERPRET:
        environment["TRITON_INTERPRET"] = "1"
    if device_index is not None:
        seen = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        environment["CUDA_VISIBLE_DEVICES"] = (
            seen.split(",")[device_index] if seen else str(device_index)
        )
    return environment
