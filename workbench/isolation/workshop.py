"""Where the judge takes workers from: one warm forkserver per flavor, started when first needed."""

import contextlib
import importlib.util
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import structs

from workbench.errors import WorkbenchError
from workbench.isolation.bubblewrap import program, wrapping
from workbench.isolation.flavors import environment_of, setup_of, visible_device
from workbench.isolation.forkserver import Forkserver, ForkserverGone
from workbench.isolation.gpumemory import GpuMemory
from workbench.isolation.link import Link
from workbench.isolation.outcome import WorkerFault
from workbench.isolation.records import Flavor, Limits
from workbench.isolation.scratch import ScratchRoot
from workbench.isolation.worker import DeviceFault, Worker
from workbench.isolation.zygote import Setup

_EASIER: tuple[dict[str, bool | str], ...] = (
    {"namespaces": False, "wrapped": False, "unwrapped_because": "the GPU did not start in it"},
    {"device_first": True},
)
"""Tried in turn when a GPU driver does not start in the full sandbox; `Worker.layers` says so."""
_DEFAULTS = Limits()
_REMEMBERED = 64
"""Workers whose processes are remembered after their end."""


class Workshop:
    """Makes workers. A context manager; safe to use from several threads; needs no torch itself.

    `device_index` counts among the GPUs that this process may see; None computes on the CPU.
    `preload` names job modules that every zygote imports, so that no worker has to. `hidden`
    names folders that workers must not read although they lie within the toolchain (all outside
    it is hidden anyway). `share_device_memory` lets CUDA tensors cross by handle, at the price of
    namespaces on the flavors with a GPU. `wrap` puts forkservers into bubblewrap where it works;
    `namespaces` gives each worker its own where the kernel does. Both say so in `Worker.layers`.
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
    ) -> None:
        self._device_index = device_index
        self._preload = tuple(preload)
        self._hidden = tuple(str(path.resolve()) for path in hidden)
        self._share = share_device_memory
        self._namespaces = namespaces
        self._unwrapped_because = "" if wrap else "switched off"
        self._lock = threading.Lock()
        self._starting = {flavor: threading.Lock() for flavor in Flavor}
        self._forkservers: dict[Flavor, Forkserver] = {}
        self._closed = False
        self._workers: list[Worker] = []
        self._ended: deque[tuple[float, list[int]]] = deque(maxlen=_REMEMBERED)
        self._gpu: GpuMemory | None = None
        self._scratch = ScratchRoot()

    @property
    def shares_device_memory(self) -> bool:
        """Whether CUDA tensors may cross by handle."""
        return self._share

    def worker(self, flavor: Flavor, limits: Limits = _DEFAULTS) -> Worker:
        """A fresh worker of `flavor`: milliseconds when its zygote is warm, seconds at first.

        Raises WorkbenchError when the forkserver, the worker or its GPU does not start.
        """
        while True:
            try:
                return self._started(flavor, limits)
            except DeviceFault as fault:
                if not self._ease(flavor):
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
        """Keep no closed worker, but its processes' numbers."""
        now = time.monotonic()
        self._ended += [(now, worker.pids) for worker in self._workers if worker.closed]
        self._workers = [worker for worker in self._workers if not worker.closed]

    def _warm(self, flavor: Flavor) -> None:
        with contextlib.suppress(WorkbenchError):
            self._warmed(flavor)

    def _warmed(self, flavor: Flavor) -> Forkserver:
        with self._starting[flavor]:
            if self._closed:
                raise WorkbenchError("the workshop is closed")
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
        channel, their_channel = socket.socketpair()
        leash, their_leash = socket.socketpair()
        out, their_out = os.pipe()
        err, their_err = os.pipe()
        link = Link(channel, out, err, leash, keep_bytes=limits.output_bytes)
        given = (their_channel.fileno(), their_out, their_err, their_leash.fileno())
        try:
            pidfd = forkserver.fork(scratch, limits, given)
        except ForkserverGone:
            link.close()
            self._drop(forkserver)
            raise
        finally:
            their_channel.close()
            their_leash.close()
            os.close(their_out)
            os.close(their_err)
        plan = forkserver.setup.confinement
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
        environment = environment_of(setup, self._device_index)
        log = self._scratch.path / f"{setup.flavor}.log"
        because = setup.confinement.unwrapped_because or self._unwrapped_because
        if not because and (bwrap := program()):
            wrapped = _confined(setup, wrapped=True)
            prefix = wrapping(
                bwrap, wrapped.confinement, self._scratch.path, self._preloaded_files()
            )
            try:
                return Forkserver(wrapped, environment=environment, prefix=prefix, log=log)
            except WorkbenchError as fault:
                because = self._unwrapped_because = f"it failed: {fault.where}"
        bare = _confined(setup, wrapped=False, unwrapped_because=because or "not installed")
        return Forkserver(bare, environment=environment, prefix=(), log=log)

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

    def _ease(self, flavor: Flavor) -> bool:
        """Restart a flavor's forkserver with the next step of `_EASIER`; False after the last."""
        forkserver = self._warmed(flavor)
        now = forkserver.setup.confinement
        for step in _EASIER:
            easier = structs.replace(now, **step)
            if (easier.namespaces, easier.wrapped, easier.device_first) != (
                now.namespaces,
                now.wrapped,
                now.device_first,
            ):
                break
        else:
            return False
        self._drop(forkserver)
        with self._starting[flavor]:
            eased = structs.replace(forkserver.setup, confinement=easier)
            self._forkservers[flavor] = self._forkserver(eased)
        return True

    def close(self) -> None:
        """Close every worker and forkserver, remove every scratch folder. Twice does no harm."""
        self._closed = True
        with self._lock:
            workers, self._workers = self._workers, []
        for worker in workers:
            worker.close()
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
