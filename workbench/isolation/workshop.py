"""Where the judge takes workers from: one warm forkserver per flavor, started when first needed."""

import contextlib
import importlib.util
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import structs

from workbench.errors import WorkbenchError
from workbench.isolation.ahead import MadeAhead
from workbench.isolation.bubblewrap import program, wrapping
from workbench.isolation.easing import eased, next_step
from workbench.isolation.flavors import environment_of, setup_of, visible_device
from workbench.isolation.forkserver import Forkserver, ForkserverGone
from workbench.isolation.gpumemory import GpuMemory
from workbench.isolation.link import Link
from workbench.isolation.outcome import WorkerFault
from workbench.isolation.records import Flavor, Limits
from workbench.isolation.scratch import ScratchRoot
from workbench.isolation.spares import Spares, Wanted
from workbench.isolation.worker import DeviceFault, Worker
from workbench.isolation.zygote import Fork, Setup

_DEFAULTS = Limits()
_ROOM_BYTES = 24 << 30
"""GPU memory that must be free before spare workers take half a GiB each (ours)."""
_REMEMBERED = 64
"""Workers whose processes are remembered after their end."""


class Workshop:
    """Makes workers. A context manager; safe to use from several threads; needs no torch itself.

    `device_index` counts among the GPUs that this process may see; None computes on the CPU.
    `preload` names job modules that every zygote imports, so that no worker has to; a
    `module:job`, of our own code only, also runs once on the GPU, and what it compiled is in the
    caches of later workers. `hidden` names folders that workers must not read although they lie
    within the toolchain (all outside it is hidden anyway). `share_device_memory` lets CUDA tensors
    cross by handle, at the price of namespaces on the flavors with a GPU. `wrap` puts forkservers
    into bubblewrap where it works; `namespaces` gives each worker its own where the kernel does.
    Both say so in `Worker.layers`. Without `spares` every worker is started when it is asked for.
    """

    def __init__(
        self,
        *,
        device_index: int | None = None,
        preload: Sequence[str] = (),
        hidden: Sequence[Path] = (),
        share_device_memory: bool = False,
        wrap: bool = True,
        namespaces: bool = True,
        spares: bool = True,
    ) -> None:
        self._device_index = device_index
        self._preload = tuple(name.partition(":")[0] for name in preload)
        self._ahead_jobs = tuple(name for name in preload if ":" in name)
        self._ahead: MadeAhead | None = None
        self._making_ahead = threading.Lock()
        self._hidden = tuple(str(path.resolve()) for path in hidden)
        self._share = share_device_memory
        self._namespaces = namespaces
        self._unwrapped_because = "" if wrap else "switched off"
        self._lock = threading.Lock()
        self._starting = {flavor: threading.Lock() for flavor in Flavor}
        self._forkservers: dict[Flavor, Forkserver] = {}
        self._closed = False
        self._easing = 0
        """The step of `easing` at which this machine's GPU starts, as far as it was tried."""
        self._workers: list[Worker] = []
        self._ended: deque[tuple[float, list[int]]] = deque(maxlen=_REMEMBERED)
        self._gpu: GpuMemory | None = None
        self._scratch = ScratchRoot()
        self._spares = Spares()
        self._may_spare = spares and share_device_memory

    @property
    def device_index(self) -> int | None:
        """The GPU that it computes on, among those that this process may see; None on the CPU."""
        return self._device_index

    @property
    def shares_device_memory(self) -> bool:
        """Whether CUDA tensors may cross by handle."""
        return self._share

    def worker(self, flavor: Flavor, limits: Limits = _DEFAULTS) -> Worker:
        """A fresh worker of `flavor`: milliseconds when its zygote is warm, seconds at first.

        Raises WorkbenchError when the forkserver, the worker or its GPU does not start.
        """
        return self._spares.take((flavor, limits)) or self._fresh(flavor, limits)

    def _fresh(self, flavor: Flavor, limits: Limits) -> Worker:
        if flavor is Flavor.CUDA:
            self._make_ahead()
        return self._eased(flavor, limits)

    def spare(self, *wanted: Wanted, exercises: Mapping[Flavor, str]) -> None:
        """Start workers of these kinds for whoever asks next, and return at once.

        Only where GPU memory is shared, so that candidates are compared there, and where it has
        room for contexts that idle. To be called, and waited for by `spared`, while nobody times.
        `exercises` are jobs of ours that they do first, by flavor.
        """
        if self._may_spare and (self._gpu_memory().free() or 0) >= _ROOM_BYTES:
            self._spares.order(*wanted, start=partial(self._exercised, exercises))

    def _exercised(self, exercises: Mapping[Flavor, str], flavor: Flavor, limits: Limits) -> Worker:
        worker = self._fresh(flavor, limits)
        # Where one of these fails, the first real question says so.
        with contextlib.suppress(WorkerFault):
            if flavor is Flavor.CUDA:
                worker.close_shared_memory()
            if flavor in exercises:
                worker.call(exercises[flavor], {})
        return worker

    def drop_spares(self) -> None:
        """Close all spare workers: after trouble on the GPU no context is what it was."""
        self._spares.drop()

    def spared(self) -> None:
        """Wait until all of `spare` have started."""
        self._spares.wait()

    @contextmanager
    def workers(self, *wanted: Wanted) -> Iterator[list[Worker]]:
        """Workers of these flavors, started side by side: a GPU takes half a second to start.

        Raises WorkbenchError as `worker` does, when those that did start are closed.
        """
        with ExitStack() as kept:
            with ThreadPoolExecutor(len(wanted)) as pool:
                asked = [pool.submit(self.worker, *one) for one in wanted]
                faults = [future.exception() for future in asked]
            found = [kept.enter_context(f.result()) for f in asked if f.exception() is None]
            for fault in faults:
                if fault is not None:
                    raise fault
            yield found

    def _eased(self, flavor: Flavor, limits: Limits) -> Worker:
        """A worker, in the strictest sandbox in which its GPU starts."""
        while True:
            tried = self._easing
            try:
                return self._started(flavor, limits)
            except DeviceFault as fault:
                if not self._ease(flavor, tried):
                    raise WorkbenchError(
                        "the GPU did not start in a worker",
                        where=str(fault),
                        todo="run `workbench doctor`",
                    ) from fault

    def warm(self, *flavors: Flavor) -> None:
        """Start the forkservers of these flavors now, side by side, without waiting for them.

        A fault is not lost: whoever asks for such a worker meets it then.
        """
        for flavor in flavors:
            threading.Thread(target=self._warm, args=(flavor,), daemon=True).start()

    def warm_all(self) -> None:
        """`warm` for every flavor that judging a candidate takes here."""
        everywhere = (Flavor.REFERENCE, Flavor.COMPILE, Flavor.INTERPRET)
        self.warm(*everywhere, *((Flavor.CUDA,) if self._device_index is not None else ()))

    def device_processes(self) -> list[int]:
        """Processes that compute on this workshop's GPU, as the driver lists them."""
        return [] if self._gpu is None else list(self._gpu.processes())

    def scratch_left(self) -> list[str]:
        """Names of scratch folders whose workers are closed: there must be none."""
        with self._lock:
            alive = {worker.scratch for worker in self._workers if not worker.closed}
        folders = [path for path in self._scratch.path.iterdir() if path.is_dir()]
        return [path.name for path in folders if path not in alive]

    def ended_pids(self, since: float) -> set[int]:
        """Processes of workers found closed after `since`, on the monotonic clock."""
        with self._lock:
            self._bury()
            return {pid for closed, pids in self._ended if closed >= since for pid in pids}

    def _bury(self) -> None:
        """Keep no worker that is gone, but its processes' numbers."""
        now = time.monotonic()
        self._ended += [(now, worker.pids) for worker in self._workers if worker.gone]
        self._workers = [worker for worker in self._workers if not worker.gone]

    def _warm(self, flavor: Flavor) -> None:
        # OSError: the workshop was closed meanwhile, and its folders are gone.
        with contextlib.suppress(WorkbenchError, OSError):
            self._warmed(flavor)
            if flavor is Flavor.CUDA:
                self._make_ahead()

    def _make_ahead(self) -> None:
        """Once: let our own code compile in a worker of its own, and keep what it made."""
        with self._making_ahead:
            if self._ahead is not None or not self._ahead_jobs:
                return
            made = MadeAhead(self._scratch.folder("ahead"))
            # Where it fails, workers compile for themselves, and say what is wrong then.
            # OSError: it left no cache, or the disk is full.
            with (
                self._eased(Flavor.CUDA, _DEFAULTS) as worker,
                contextlib.suppress(WorkerFault, OSError),
            ):
                for job in self._ahead_jobs:
                    worker.call(job, {})
                made.take(worker.scratch)
            self._ahead = made

    def _warmed(self, flavor: Flavor) -> Forkserver:
        with self._starting[flavor]:
            if self._closed:
                raise WorkbenchError("the workshop is closed")
            found = self._forkservers.get(flavor)
            if found is not None and _wrapped_in_vain(found, self._easing):
                del self._forkservers[flavor]
                found.close()
            if flavor not in self._forkservers:
                setup = setup_of(
                    flavor,
                    on_gpu=self._device_index is not None,
                    preload=self._preload,
                    hidden=self._hidden,
                    share_device_memory=self._share,
                    namespaces=self._namespaces,
                )
                self._forkservers[flavor] = self._forkserver(setup)
            return self._forkservers[flavor]

    def _started(self, flavor: Flavor, limits: Limits) -> Worker:
        try:
            worker = self._forked(flavor, limits)
        except ForkserverGone:
            # It may have been killed for memory. One more is started; two are a pattern.
            try:
                worker = self._forked(flavor, limits)
            except ForkserverGone as again:
                raise WorkbenchError(
                    f"the forkserver for {flavor} workers keeps dying",
                    todo="look at `dmesg`: is memory short?",
                ) from again
        with self._lock:
            self._bury()
            self._workers.append(worker)
        try:
            worker.greet()
        except DeviceFault:
            worker.close()
            raise
        except WorkerFault as fault:
            raise WorkbenchError(
                f"a {flavor} worker did not start: {fault.what}", where=fault.where
            ) from fault
        return worker

    def _forked(self, flavor: Flavor, limits: Limits) -> Worker:
        forkserver = self._warmed(flavor)
        scratch = self._scratch.folder(flavor)
        plan = eased(forkserver.setup.confinement, self._easing)
        wanted = Fork(scratch=str(scratch), limits=limits, confinement=plan)
        if self._ahead is not None and plan.gpu:
            self._ahead.give(scratch)
        channel, their_channel = socket.socketpair()
        leash, their_leash = socket.socketpair()
        out, their_out = os.pipe()
        err, their_err = os.pipe()
        link = Link(channel, out, err, leash, keep_bytes=limits.output_bytes)
        given = (their_channel.fileno(), their_out, their_err, their_leash.fileno())
        try:
            pidfd = forkserver.fork(wanted, given)
        except ForkserverGone:
            link.close()
            self._drop(forkserver)
            raise
        finally:
            their_channel.close()
            their_leash.close()
            os.close(their_out)
            os.close(their_err)
        return Worker(
            link,
            pidfd,
            scratch,
            limits,
            shares_device_memory=plan.share_device_memory,
            gpu=self._gpu_memory() if plan.gpu else None,
        )

    def _gpu_memory(self) -> GpuMemory:
        """The driver's count of memory on this workshop's GPU, opened once."""
        with self._lock:
            if self._gpu is None:
                self._gpu = GpuMemory(visible_device(self._device_index or 0, os.environ))
            return self._gpu

    def _forkserver(self, setup: Setup) -> Forkserver:
        """Wrapped where bubblewrap is there and works, which shows by trying; else bare."""
        start = partial(
            Forkserver,
            environment=environment_of(setup, self._device_index),
            log=self._scratch.path / f"{setup.flavor}.log",
            closing=lambda: self._closed,
        )
        wrapped, bwrap = _confined(setup, wrapped=True), program()
        because = self._unwrapped_because or ("" if bwrap else "not installed")
        because = because or eased(wrapped.confinement, self._easing).unwrapped_because
        if bwrap and not because:
            files = self._preloaded_files()
            prefix = wrapping(bwrap, wrapped.confinement, self._scratch.path, files)
            try:
                return start(wrapped, prefix=prefix)
            except WorkbenchError as fault:
                if self._closed:
                    raise
                because = self._unwrapped_because = f"it failed: {fault.where}"
        return start(_confined(setup, wrapped=False, unwrapped_because=because), prefix=())

    def _preloaded_files(self) -> list[str]:
        """Files of `preload`, which a wrapped zygote could not see where they lie elsewhere."""
        specs = map(importlib.util.find_spec, self._preload)
        return [spec.origin for spec in specs if spec is not None and spec.origin]

    def _drop(self, forkserver: Forkserver) -> None:
        flavor = forkserver.setup.flavor
        with self._starting[flavor]:
            if self._forkservers.get(flavor) is forkserver:
                del self._forkservers[flavor]
        forkserver.close()

    def _ease(self, flavor: Flavor, tried: int) -> bool:
        """Go on to the next easier sandbox, for all workers with a GPU; False after the last.

        Only a forkserver in bubblewrap has to be restarted; any other applies it with the next
        fork.
        """
        plan = self._warmed(flavor).setup.confinement
        with self._lock:
            if self._easing == tried:
                step = next_step(plan, tried)
                if step is None:
                    return False
                self._easing = step
        return True

    def close(self) -> None:
        """Close every worker and forkserver, remove every scratch folder. Idempotent."""
        self._closed = True
        self._spares.close()
        with self._lock:
            workers, self._workers = self._workers, []
        for worker in workers:
            worker.see_gone()
        for flavor, starting in self._starting.items():
            with starting:
                forkserver = self._forkservers.pop(flavor, None)
            if forkserver is not None:
                forkserver.close()
        self._scratch.close()
        with self._lock:
            if self._gpu is not None:
                self._gpu.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _confined(setup: Setup, **changes: bool | str) -> Setup:
    return structs.replace(setup, confinement=structs.replace(setup.confinement, **changes))


def _wrapped_in_vain(forkserver: Forkserver, step: int) -> bool:
    plan = forkserver.setup.confinement
    return plan.wrapped and not eased(plan, step).wrapped
