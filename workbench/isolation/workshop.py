"""Where the judge takes workers from: one warm forkserver per flavor, started when first needed."""

import importlib.util
import os
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import structs

from workbench.errors import WorkbenchError
from workbench.isolation.bubblewrap import program, wrapping
from workbench.isolation.forkserver import Forkserver, ForkserverGone
from workbench.isolation.grants import toolchain
from workbench.isolation.link import Link
from workbench.isolation.outcome import WorkerFault
from workbench.isolation.records import Flavor, Limits
from workbench.isolation.sandbox import Confinement
from workbench.isolation.scratch import ScratchRoot
from workbench.isolation.worker import DeviceFault, Worker
from workbench.isolation.zygote import Setup

_PRELOAD = ("torch", "triton", "workbench.isolation.tensors")
_INHERITED = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "CUDA_HOME", "CC")
_DEFAULTS = Limits()


class Workshop:
    """Makes workers. A context manager; safe to use from several threads; needs no torch itself.

    `device_index` counts among the GPUs that this process may see; None computes on the CPU.
    `preload` names job modules that every zygote imports, so that no worker has to. `hidden`
    names folders that workers must not read although they lie within the toolchain (all outside
    it is hidden anyway). `share_device_memory` lets CUDA tensors cross by handle, at the price of
    namespaces on the flavors with a GPU. `wrap` puts forkservers into bubblewrap where it works.
    """

    def __init__(
        self,
        *,
        device_index: int | None = None,
        preload: Sequence[str] = (),
        hidden: Sequence[Path] = (),
        share_device_memory: bool = False,
        wrap: bool = True,
    ) -> None:
        self._device_index = device_index
        self._preload = tuple(preload)
        self._hidden = tuple(str(path.resolve()) for path in hidden)
        self._share = share_device_memory
        self._unwrapped_because = "" if wrap else "switched off"
        self._lock = threading.Lock()
        self._forkservers: dict[Flavor, Forkserver] = {}
        self._workers: list[Worker] = []
        self._scratch = ScratchRoot()

    def worker(self, flavor: Flavor, limits: Limits = _DEFAULTS) -> Worker:
        """A fresh worker of `flavor`: milliseconds when its zygote is warm, seconds at first.

        Raises WorkbenchError when the forkserver, the worker or its GPU does not start.
        """
        try:
            return self._started(flavor, limits)
        except ForkserverGone:
            self._drop(flavor)
        except DeviceFault as fault:
            # A driver that does not start in namespaces may start without; then `layers` says so.
            if not self._without_namespaces(flavor):
                raise WorkbenchError(
                    "the GPU did not start in a worker",
                    where=str(fault),
                    todo="run `workbench doctor`",
                ) from fault
        try:
            return self._started(flavor, limits)
        except (ForkserverGone, DeviceFault) as fault:
            raise WorkbenchError(
                f"a {flavor} worker did not start", where=str(fault), todo="run `workbench doctor`"
            ) from fault

    def _started(self, flavor: Flavor, limits: Limits) -> Worker:
        with self._lock:
            if flavor not in self._forkservers:
                self._forkservers[flavor] = self._forkserver(self._setup(flavor))
            forkserver = self._forkservers[flavor]
        worker = self._forked(forkserver, limits)
        with self._lock:
            self._workers = [other for other in self._workers if not other.closed]
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

    def _forked(self, forkserver: Forkserver, limits: Limits) -> Worker:
        scratch = self._scratch.folder(forkserver.setup.flavor)
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
            raise
        finally:
            their_channel.close()
            their_leash.close()
            os.close(their_out)
            os.close(their_err)
        return Worker(link, pidfd, scratch, limits)

    def _forkserver(self, setup: Setup) -> Forkserver:
        """Wrapped where bubblewrap is there and works, which shows by trying; else bare."""
        environment = self._environment(setup)
        log = self._scratch.path / f"{setup.flavor}.log"
        bwrap = program()
        because = "not installed" if bwrap is None else self._unwrapped_because
        if bwrap is not None and not because:
            wrapped = _replace(setup, wrapped=True)
            prefix = wrapping(
                bwrap, wrapped.confinement, self._scratch.path, self._preloaded_files()
            )
            try:
                return Forkserver(wrapped, environment=environment, prefix=prefix, log=log)
            except WorkbenchError as fault:
                because = self._unwrapped_because = f"it failed: {fault.where}"
        bare = _replace(setup, unwrapped_because=because)
        return Forkserver(bare, environment=environment, prefix=(), log=log)

    def _preloaded_files(self) -> list[str]:
        """Files of `preload`, which a wrapped zygote could not see where they lie elsewhere."""
        specs = map(importlib.util.find_spec, self._preload)
        return [spec.origin for spec in specs if spec is not None and spec.origin]

    def _setup(self, flavor: Flavor) -> Setup:
        gpu = self._device_index is not None and flavor in (Flavor.CUDA, Flavor.REFERENCE)
        if flavor is Flavor.CUDA and not gpu:
            raise WorkbenchError("a CUDA worker was asked for where no device was chosen")
        preload = () if flavor is Flavor.BARE else _PRELOAD
        return Setup(
            flavor=flavor,
            device="cuda:0" if gpu else "cpu",
            preload=(*preload, *self._preload),
            confinement=Confinement(
                roots=tuple(map(str, toolchain(os.environ))),
                hidden=self._hidden,
                processes=gpu or flavor is Flavor.COMPILE,
                gpu=gpu,
                share_device_memory=gpu and self._share,
                namespaces=not (gpu and self._share),
            ),
        )

    def _environment(self, setup: Setup) -> dict[str, str]:
        """What a zygote is born with: an allow-list of the judge's variables and our own."""
        environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        environment |= {
            "USER": "worker",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
            "CUDA_VISIBLE_DEVICES": self._visible() if setup.confinement.gpu else "",
            # The judge's own order, so that a worker finds the very modules the judge would.
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path.startswith("/")),
        }
        if setup.flavor is Flavor.INTERPRET:
            environment["TRITON_INTERPRET"] = "1"
        return environment

    def _visible(self) -> str:
        index = self._device_index or 0
        seen = os.environ.get("CUDA_VISIBLE_DEVICES", "").strip()
        if not seen:
            return str(index)
        names = seen.split(",")
        if index >= len(names):
            raise WorkbenchError(
                f"there is no device {index}", where=f"CUDA_VISIBLE_DEVICES={seen}"
            )
        return names[index]

    def _drop(self, flavor: Flavor) -> None:
        with self._lock:
            gone = self._forkservers.pop(flavor, None)
        if gone is not None:
            gone.close()

    def _without_namespaces(self, flavor: Flavor) -> bool:
        """Restart a flavor's forkserver with one layer less; False when there is none to drop."""
        with self._lock:
            setup = self._forkservers[flavor].setup
        if not (setup.confinement.namespaces or setup.confinement.wrapped):
            return False
        self._drop(flavor)
        self._unwrapped_because = "the GPU did not start in it"
        with self._lock:
            bare = _replace(setup, namespaces=False, wrapped=False)
            self._forkservers[flavor] = self._forkserver(bare)
        return True

    def close(self) -> None:
        """Close every worker and forkserver, remove every scratch folder. Twice does no harm."""
        with self._lock:
            workers, self._workers = self._workers, []
            forkservers, self._forkservers = list(self._forkservers.values()), {}
        for worker in workers:
            worker.close()
        for forkserver in forkservers:
            forkserver.close()
        self._scratch.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _replace(setup: Setup, **changes: bool | str) -> Setup:
    return structs.replace(setup, confinement=structs.replace(setup.confinement, **changes))
