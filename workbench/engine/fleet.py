"""The GPUs of a session: each works for one candidate at a time, and a faulty one is left out.

Candidate and incumbent of one decision are timed in one run on one GPU, so the decision does not
depend on which GPU that is; every record names it. The machine-wide lock of a GPU is still taken by
whoever uses it: the fleet only keeps a session's own candidates apart.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from msgspec import Struct, structs

from workbench.engine.parts import GivenUp
from workbench.errors import WorkbenchError
from workbench.gate.records import GateReport
from workbench.isolation.records import Flavor
from workbench.isolation.workshop import Workshop
from workbench.measure.gpuwatch import gpu_behind
from workbench.session.records import SessionSettings

_SICK = ".gpu-sick"
"""Endings of the `gate.health` codes that mean a faulty GPU."""


class Station(Struct, frozen=True, kw_only=True):
    """One GPU, with the workers that use it."""

    index: int
    """Among those that this process may see."""
    name: str
    """`cuda:1 GPU-5f3c...`."""
    workshop: Workshop


class Turn(Protocol):
    """A caller that waits for a GPU. Both answers may change at any time, from any thread."""

    @property
    def come(self) -> bool:
        """Whether the session waits for it: then it precedes speculative work."""

    @property
    def over(self) -> bool:
        """Whether nobody waits for it any more."""

    def had(self, seconds: float) -> None:
        """It gave a GPU back after this many seconds without a result."""


class Fleet:
    """Hands out GPUs, from several threads.

    `told` is called for a GPU that is left out; `ahead` says whether candidates may use a GPU
    before their turn.
    """

    def __init__(
        self,
        home: Workshop,
        stations: Sequence[Station],
        told: Callable[[str], None],
        *,
        ahead: bool = True,
    ) -> None:
        """`home` has the workers for all that needs no GPU; without stations there is none."""
        self.home = home
        self.measures = bool(stations)
        self._ahead = ahead
        self._told = told
        self._stations = tuple(stations)
        self._well = list(stations)
        self._free = list(stations)
        self._waiting: list[Turn] = []
        self._changed = threading.Condition()

    @property
    def several(self) -> bool:
        """Whether more than one GPU is in use."""
        return len(self._well) > 1

    @property
    def ahead(self) -> bool:
        """Whether a candidate may be gated completely before its turn.

        True without a GPU, and on a GPU that the running candidate does not use.
        """
        return not self.measures or (self._ahead and self.several)

    def wake(self) -> None:
        """Let waiting callers check again whose turn it is."""
        with self._changed:
            self._changed.notify_all()

    def work(self, turn: Turn, job: Callable[[Station], GateReport]) -> GateReport:
        """Run a job on whichever GPU is free; on another one if that turns out to be faulty.

        The last GPU's result is returned as it is. Raises GivenUp when the turn is over before a
        GPU was free, WorkbenchError when no worker starts on any GPU.
        """
        spent = 0.0
        while True:
            with self._lease(turn) as station:
                began = time.monotonic()
                report = None
                try:
                    report = self._tried(station, job)
                finally:
                    if report is None:
                        turn.had(time.monotonic() - began)
            if report is None:
                continue
            spent += report.gpu_seconds
            if not (sick := _sickness(report)) or not self._leave_out(station, sick):
                return structs.replace(report, gpu=station.name, gpu_seconds=spent)

    def close(self) -> None:
        """End the workers of every GPU except the first's."""
        for station in self._stations:
            if station.workshop is not self.home:
                station.workshop.close()

    def _tried(self, station: Station, job: Callable[[Station], GateReport]) -> GateReport | None:
        """The job's result; None where its workers do not start here and there are other GPUs."""
        try:
            return job(station)
        except WorkbenchError as fault:
            if not self._leave_out(station, str(fault)):
                raise
            return None

    def _leave_out(self, station: Station, why: str) -> bool:
        """Stop using a GPU in this run; False for the last one, which stays."""
        with self._changed:
            if station not in self._well:
                return True
            if not self.several:
                return False
            self._well.remove(station)
            if station in self._free:
                self._free.remove(station)
            left = ", ".join(one.name.partition(" ")[0] for one in self._well)
            self._changed.notify_all()
        self._told(f"{station.name} is left out, the run goes on with {left}: {why}")
        return True

    @contextlib.contextmanager
    def _lease(self, turn: Turn) -> Iterator[Station]:
        """A GPU that no other job of this session uses meanwhile. Raises GivenUp."""
        with self._changed:
            self._waiting.append(turn)
            try:
                self._changed.wait_for(lambda: turn.over or self._is_next(turn))
                if turn.over:
                    raise GivenUp
                station = self._free.pop(0)
            finally:
                self._waiting.remove(turn)
                self._changed.notify_all()
        try:
            yield station
        finally:
            with self._changed:
                if station in self._well:
                    self._free.append(station)
                self._changed.notify_all()

    def _is_next(self, turn: Turn) -> bool:
        """Callers whose turn has come go first, then in order of arrival."""
        first = next((one for one in self._waiting if one.come), self._waiting[0])
        return bool(self._free) and first is turn


def open_fleet(
    settings: SessionSettings,
    home: Workshop,
    preload: Sequence[str],
    told: Callable[[str], None],
) -> Fleet:
    """The GPUs that a session's settings name; `home` computes on the first.

    In a beam, candidates are evaluated before any is gated completely.
    """
    first, every = settings.device_index, settings.device_indices
    # Whoever works for the session elsewhere, as `verify` does, has put its own device there.
    indices = every if first in every else () if first is None else (first,)
    stations = []
    for index in indices:
        workshop = home
        if index != first:
            workshop = Workshop(device_index=index, preload=preload, share_device_memory=True)
            workshop.warm(Flavor.REFERENCE, Flavor.CUDA, Flavor.INTERPRET)
        stations.append(Station(index=index, name=named(index), workshop=workshop))
    return Fleet(home, stations, told, ahead=settings.beam == 1)


def named(index: int) -> str:
    """`cuda:1 GPU-5f3c...`; without the UUID where NVML does not tell it.

    One that is not there any more is named too: it is left out when its workers do not start.
    """
    with contextlib.suppress(WorkbenchError):
        gpu = gpu_behind(index)
        if gpu is not None:
            return f"cuda:{index} {gpu.uuid}"
    return f"cuda:{index}"


def _sickness(report: GateReport) -> str:
    """What a report says about a faulty GPU; empty where there is none."""
    found = [f for stage in report.stages for f in stage.findings if f.code.endswith(_SICK)]
    return found[0].says if found else ""
