"""One worker as the judge holds it: call jobs, survive whatever happens, leave nothing behind."""

import contextlib
import os
import secrets
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from workbench.errors import WorkbenchError
from workbench.isolation.forkserver import ended, pid_behind
from workbench.isolation.gpumemory import DeviceUse, GpuMemory
from workbench.isolation.link import Ended, Late, Link, OverLimit
from workbench.isolation.outcome import JobFailed, WorkerBroke, WorkerDied, WorkerTimedOut
from workbench.isolation.patience import Patience
from workbench.isolation.processes import (
    Work,
    call_filters,
    children,
    descendants,
    end_others,
    use,
    work_of,
)
from workbench.isolation.records import Layer, Limits
from workbench.isolation.sandbox import PID_NAMESPACE, in_force
from workbench.isolation.scratch import remove_tree
from workbench.isolation.sharedfiles import remove_counters
from workbench.isolation.watch import Excess, Watch
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

CAP_JOB = "workbench.isolation.device:cap"
CLOSED = "shared memory closed"
"""Name of the layer."""
CLOSE_JOB = "workbench.isolation.device:close_shared_memory"
NO_PROGRAMS = "no programs"
"""Name of the layer."""
FORBID_JOB = "workbench.isolation.device:forbid_programs"
_CAP_SECONDS = 30.0
_HELLO_SECONDS = 120.0
_CLOCK_SECONDS = 0.1
_SWEEP_SECONDS = 30.0
"""Time for a keeper without a PID namespace to find and kill what it adopted."""
_KILL_SECONDS = 30.0


class DeviceFault(Exception):
    """The worker lives but its GPU did not start; the text says how."""


class Worker:
    """One sandboxed process that runs jobs for one candidate and is then thrown away.

    A context manager, made by `Workshop.worker`. It serves one call at a time; `close` may be
    called from another thread to cut a call short, which then raises WorkerDied("closed").
    """

    isolation: str
    """What is really in force: `bubblewrap`, `landlock+seccomp` or `process only`."""
    layers: tuple[Layer, ...]
    """The layers of its isolation."""
    scratch: Path
    """The worker's private folder. Its content is the worker's: not to be read as truth."""

    def __init__(
        self,
        link: Link,
        pidfd: int,
        scratch: Path,
        limits: Limits,
        *,
        shares_device_memory: bool = False,
        gpu: GpuMemory | None = None,
    ) -> None:
        self.isolation = "process only"
        self.layers = ()
        self.scratch = scratch
        self.keeper_pid = pid_behind(pidfd)
        """Root of every process that this worker starts."""
        self._link = link
        self._pidfd = pidfd
        self._limits = limits
        self._own_pid = 0
        self._main_pid = 0
        # The kernel stamps files by a clock of its own, some milliseconds behind.
        self._born = time.time() - _CLOCK_SECONDS
        self._shares = shares_device_memory
        self._gpu = gpu
        since = self._born if shares_device_memory else None
        self._watch = Watch(self.keeper_pid, limits, scratch, gpu, shares_since=since)
        self._closing = threading.Lock()
        self._closed = False
        self._gone = threading.Event()
        self._busy = threading.RLock()
        self.spent: dict[str, float] = {}
        """Seconds that calls took on the judge's clock, by the name of their job."""

    def greet(self) -> None:
        """Spend the worker's nonce on its first word. The workshop does this, once.

        Raises DeviceFault, WorkerDied, WorkerTimedOut or WorkerBroke; all but the first close it.
        """
        nonce = secrets.token_bytes(NONCE_BYTES)
        message, _ = self._exchange([nonce], nonce, 0, _HELLO_SECONDS)
        if not isinstance(message, Hello):
            raise self._broke("said something before its greeting")
        self.layers = tuple(Layer(name=n, ok=ok, detail=d) for n, ok, d in message.layers)
        self.isolation = in_force(self.layers)
        self._own_pid = message.pid
        # As this process numbers it. Nothing but our own code has run: the keeper has one child.
        self._main_pid = next(iter(children(self.keeper_pid)), 0)
        if message.fault:
            raise DeviceFault(message.fault)
        if self._gpu is not None:
            self.layers = (*self.layers, _memory_watch(self._gpu, self.pids))

    @property
    def waited(self) -> float:
        """Seconds that the last call was waited for: without the judge's own looks and packing."""
        return self._link.waited

    @property
    def alive(self) -> bool:
        """Whether its processes are still there."""
        return not self._closed and not ended(self._pidfd, 0)

    def work(self) -> Work:
        """What its processes have done up to now."""
        return work_of(descendants(self.keeper_pid) if self.alive else [])

    @property
    def pids(self) -> list[int]:
        """Its processes, as this process numbers them; once it is closed, those it had then."""
        self._look()
        return list(self._watch.pids)

    def _look(self) -> None:
        if self.alive:
            self._watch.pids = descendants(self.keeper_pid)

    def allow_device_bytes(self, size: int) -> None:
        """Cap its GPU memory: here, by the driver's count, and in its own allocator.

        To be called before any code that is not trusted runs there; later the allocator's part is
        a courtesy, and the driver's count the wall. Without a GPU it does nothing. Raises as
        `call` does.
        """
        if self._gpu is not None:
            self._watch.device_bytes = size
            self.call(CAP_JOB, {"bytes": size}, deadline=_CAP_SECONDS)

    def close_shared_memory(self) -> None:
        """Let it make no more files in /dev/shm, which it may where it shares device memory.

        To be called before any code that is not trusted runs there; `layers` says whether it holds.
        Where no memory is shared, and the second time, it does nothing. Raises as `call` does.
        """
        if self._shares and all(layer.name != CLOSED for layer in self.layers):
            told = self.call(CLOSE_JOB, {}, deadline=_CAP_SECONDS).body
            layer = Layer(
                name=CLOSED,
                ok=told.get("ok") is True,
                detail=str(told.get("detail", "")),
            )
            self.layers = (*self.layers, layer)

    def forbid_programs(self) -> int:
        """From now on, for good, it starts no process; those that it has started are killed.

        Returns how many were. `layers` says whether it holds: not where the kernel has no seccomp.
        The worker confines itself, and the judge looks at the kernel's count of its filters: code
        that already runs as it likes in there can still pretend, which `started` may show. The
        second time it does nothing. Raises as `call` does.
        """
        if any(layer.name == NO_PROGRAMS for layer in self.layers):
            return 0
        before = call_filters(self._main_pid)
        told = self.call(FORBID_JOB, {}, deadline=_CAP_SECONDS).body
        ok, detail, ended = told.get("ok") is True, str(told.get("detail", "")), 0
        after = call_filters(self._main_pid)
        if ok and before is not None and after is not None and after <= before:
            ok, detail = False, "the kernel knows of no new filter"
        try:
            ended = end_others(self.keeper_pid, self._main_pid, _SWEEP_SECONDS) if ok else 0
        except TimeoutError as fault:
            ok, detail = False, str(fault)
        self.layers = (*self.layers, Layer(name=NO_PROGRAMS, ok=ok, detail=detail))
        return ended

    def started(self) -> int:
        """How many processes it has although it may start none; 0 where it may."""
        if all(layer.name != NO_PROGRAMS or not layer.ok for layer in self.layers):
            return 0
        return use([pid for pid in descendants(self.keeper_pid) if pid != self._main_pid]).processes

    def device_use(self) -> DeviceUse | None:
        """Its GPU memory at this moment; None without a GPU or a cap on it."""
        return None if self._closed else self._watch.device_use()

    def call(
        self,
        job: str,
        request: dict[str, Any],
        tensors: Sequence[Blob] = (),
        *,
        deadline: float | None = None,
    ) -> Reply:
        """Run `job` (`package.module:function`) in the worker and return what it answers.

        `request` must be msgpack-able. `deadline` in seconds of the worker's own time (`Patience`);
        default `Limits.wall_seconds`. Raises JobFailed when the job raised (the worker can be
        called again), else WorkerDied, WorkerTimedOut or WorkerBroke: then the worker has been
        killed with everything it started, and its scratch is gone. The reply is what the worker
        claims; its blobs are views of bytes that the judge owns.
        """
        if self._closed:
            raise WorkerDied("closed")
        nonce = secrets.token_bytes(NONCE_BYTES)
        pieces = frame(nonce, Call(job=job, body=request, blobs=heads(tensors)), tensors)
        seconds = self._limits.wall_seconds if deadline is None else deadline
        began = time.monotonic()
        try:
            message, data = self._exchange(pieces, nonce, self._limits.reply_bytes, seconds)
        finally:
            name = job.rpartition(":")[2]
            self.spent[name] = self.spent.get(name, 0.0) + time.monotonic() - began
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
        with self._busy:
            patience = Patience(seconds, lambda: descendants(self.keeper_pid))
            try:
                head, data = self._link.exchange(
                    pieces, nonce, data_cap=data_cap, left=patience.left, watch=self._excess
                )
                return decode_from_worker(memoryview(head)), data
            except Ended as end:
                raise self._died(end) from None
            except Late:
                raise WorkerTimedOut(
                    seconds,
                    busy=patience.busy,
                    cpu_seconds=patience.cpu_seconds,
                    stderr=self._end(),
                ) from None
            except OverLimit as excess:
                raise self._over(excess.excess) from None
            except WireFault as fault:
                raise self._broke(str(fault)) from fault
            except BaseException:
                # The reader was interrupted within a frame: there is no next turn.
                self.close()
                raise

    def _excess(self) -> Excess | None:
        # Once the keeper has ended, its number may soon be another process's.
        return None if ended(self._pidfd, 0) else self._watch()

    def _over(self, excess: Excess) -> WorkerDied:
        stderr = self._end()
        return WorkerDied(excess.how, held=excess.held, limit=excess.limit, stderr=stderr)

    def _died(self, end: Ended) -> WorkerDied:
        how = "lost"
        if self._closed:
            how = "closed"
        elif end.exit_code is not None:
            how = "exited"
        elif end.signal is not None:
            how = "killed by signal"
        return WorkerDied(how, exit_code=end.exit_code, signal=end.signal, stderr=self._end())

    def _broke(self, fault: str) -> WorkerBroke:
        return WorkerBroke(fault, stderr=self._end())

    def _end(self) -> str:
        """Close, and return the tail of stderr: once the worker is dead, no more can come."""
        self._kill()
        _, err = self.output()
        self.close()
        return err

    def output(self) -> tuple[str, str]:
        """Tails of what the worker wrote to stdout and stderr; empty once it is closed."""
        with self._busy:
            return ("", "") if self._link.closed else self._link.output()

    def close(self) -> None:
        """Kill the worker and all it started, remove its scratch folder. Idempotent.

        Raises WorkbenchError when the kernel cannot end it (a process stuck in a GPU driver).
        """
        with self._closing:
            if self._closed:
                return
            self._look()
            self._closed = True
        try:
            self._kill()
            with self._busy:
                self._link.close()
                os.close(self._pidfd)
                remove_tree(self.scratch)
                if self._shares:
                    remove_counters({self._own_pid, *self._watch.pids}, self._born)
        finally:
            self._gone.set()

    def see_gone(self) -> None:
        """As `close`; waits where another thread is closing it. For who is in no call of it."""
        self.close()
        self._gone.wait()

    def _kill(self) -> None:
        """End every process of this worker and see them gone."""
        self._link.let_go()
        alone = any(layer.ok for layer in self.layers if layer.name == PID_NAMESPACE)
        if not alone and ended(self._pidfd, _SWEEP_SECONDS):
            return
        left = [] if alone else descendants(self.keeper_pid)
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        if not ended(self._pidfd, _KILL_SECONDS) or use(left).processes:
            raise WorkbenchError(
                "a worker could not be killed",
                where=f"pid {self.keeper_pid}",
                todo="look at `dmesg` and `nvidia-smi`: a GPU may hang and need a reset",
            )

    @property
    def closed(self) -> bool:
        """Whether it can no longer be called."""
        return self._closed

    @property
    def gone(self) -> bool:
        """Whether its processes are ended and its scratch folder removed, as far as they can be."""
        return self._gone.is_set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _memory_watch(gpu: GpuMemory, pids: list[int]) -> Layer:
    """Whether the driver reports what this worker holds on the GPU."""
    told = gpu.held(pids) is not None
    detail = "" if told else gpu.fault or "the driver does not tell what a process holds"
    return Layer(name="gpu memory watch", ok=told, detail=detail)
