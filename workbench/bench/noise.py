"""Counts on a GPU how often timings decide wrongly, for equal kernels and for known gains.

The decisions are the product's own, with its workers, turns, clock, contents, checks and rule. Most
are single runs in workers that are kept, with several processes for each kernel; some are whole.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import partial
from statistics import fmean, median

from workbench.bench.noise_kernels import NoiseKernel
from workbench.bench.noise_record import Decision, Line, Missing, Stream
from workbench.bench.noise_sides import BASE, RULE, TWIN, Doors, Opening, Table, slower
from workbench.bench.noise_table import as_planted
from workbench.engine.devices import Place
from workbench.errors import WorkbenchError
from workbench.gate.candidate import candidate_of
from workbench.gate.problem.records import ProblemReport, ShapeReport
from workbench.gate.records import Outcome
from workbench.gate.timing.paired_run import Noisy
from workbench.gate.timing.stage import GpuTimer, TimerSettings, holding
from workbench.gate.timing.turns import SideFault
from workbench.isolation.workshop import Workshop
from workbench.measure.gpulock import GpuBusy

GAINS = (1.0, 2.0, 5.0)
"""By how many percent slower twins take longer."""
_ASKED = 2.0
"""The gain in percent that the goal is about: planted in every table, the others only in one."""
_STREAM_PAIRS = {0.0: 120, 1.0: 60, 2.0: 120, 5.0: 60}
"""Pairs of a stream by planted percent, for the true ratio of two processes and for resampling."""
_OPENINGS = 3
"""Most times that a kernel's workers are opened until `EXTRA` gives the wanted gains."""
_EQUAL = 13
"""Decisions between equals at each table, so that six kernels make more than 300."""
_FIND, _FIND_ALL = 13, 200
"""Decisions on a gain of 2 %: most at each table, and fewest of all kernels together."""
_LARGE = 2
"""Decisions on a gain of 5 % at each table. A gain of 1 % is the threshold itself and would take
many pairs, so it is only resampled."""
_WHOLE_SHARE = 0.12
"""Share of the time for whole decisions."""
_LEAST_WHOLE = 2
"""Fewest whole decisions."""
_WHOLE_US = 70.0
"""Whole decisions are made on the kernel whose time is closest to this."""


class Bench:
    """Measures on one GPU for about `seconds`."""

    def __init__(self, place: Place, workshop: Workshop, seconds: float, doors: Doors) -> None:
        self._place = place
        self._workshop = workshop
        self._doors = doors
        self._opening = Opening(place, workshop, doors, itertools.count())
        self._until = doors.clock() + seconds
        self._whole_seconds = _WHOLE_SHARE * seconds
        self._finds = 0
        """Decisions on the gain that the goal is about, so far."""
        self._set: dict[str, int] = {}
        """`EXTRA` of that gain by kernel, where it could be planted."""

    def lines(self, kernels: tuple[NoiseKernel, ...]) -> Iterator[Line]:
        """All lines to be kept, as they are measured."""
        took: dict[str, float] = {}
        for place, kernel in enumerate(kernels):
            share = 1 / (len(kernels) - place)
            now = self._doors.clock()
            until = now + share * (self._until - self._whole_seconds - now)
            least = math.ceil(share * max(0, _FIND_ALL - self._finds))
            try:
                for line in self._kernel(kernel, until, least):
                    if isinstance(line, Stream):
                        took[line.kernel] = median(line.candidate_us)
                    yield line
            except (SideFault, Noisy, GpuBusy) as fault:
                yield Missing(kernel=kernel.name, says=str(fault)[:500])
        if self._set:
            name = min(self._set, key=lambda name: abs(took[name] - _WHOLE_US))
            kernel = next(kernel for kernel in kernels if kernel.name == name)
            yield from self._whole(kernel, self._set[name])

    # -- single runs -----------------------------------------------------------------------------

    def _kernel(self, kernel: NoiseKernel, until: float, least: int) -> Iterator[Line]:
        dials = {gain: max(1, round(gain * kernel.percent)) for gain in GAINS}
        for left in reversed(range(_OPENINGS)):
            with (
                self._opening.tables(kernel, dials, _ASKED) as tables,
                self._doors.hold(lambda: None) as watch,
            ):
                for table in tables:
                    table.warm_up(watch)
                streams = [
                    table.stream(gain, _STREAM_PAIRS[gain])
                    for table in tables
                    for gain in (0.0, *GAINS)
                    if table.has(gain)
                ]
                seen = Planted(streams)
                corrected = {gain: seen.dial(gain, extra) for gain, extra in dials.items()}
                if corrected == dials or not left:
                    yield from seen.lines()
                    if seen.why_not(_ASKED) == "":
                        self._set[kernel.name] = dials[_ASKED]
                    yield from self._decided(tables, seen, until, least)
                    return
            dials = corrected

    def _decided(
        self, tables: Sequence[Table], seen: "Planted", until: float, least: int
    ) -> Iterator[Line]:
        for table in tables:
            for _ in range(_EQUAL):
                yield table.decision(0.0)
        large = max(GAINS)
        for table in tables:
            for _ in range(_LARGE if table.has(large) and not seen.why_not(large) else 0):
                yield table.decision(large)
        if seen.why_not(_ASKED):
            return
        for made in range(_FIND * len(tables)):
            if made >= least and self._doors.clock() >= until:
                return
            yield tables[made % len(tables)].decision(_ASKED)
            self._finds += 1

    # -- whole decisions -------------------------------------------------------------------------

    def _whole(self, kernel: NoiseKernel, extra: int) -> Iterator[Line]:
        """The gate's own decisions, from new workers to confirmation, on equals and on 2 %."""
        problem = kernel.problem()
        facts = ProblemReport(problem=problem.name, shapes=(ShapeReport(shape="full"),))
        place = self._place
        timer = GpuTimer(
            problem,
            lambda: facts,
            TimerSettings(
                target=place.target, device=place.device, device_index=place.index, rule=RULE
            ),
            self._workshop,
            hold=self._doors.hold,
            opened=self._doors.opened,
        )
        base = candidate_of(kernel.candidate(0, BASE))
        more = candidate_of(kernel.candidate(extra, slower(_ASKED)))
        twin = candidate_of(kernel.candidate(0, TWIN))
        for number, (gain, parent) in enumerate(itertools.cycle(((0.0, twin), (_ASKED, more)))):
            if number >= _LEAST_WHOLE and self._doors.clock() >= self._until:
                return
            seed = self._opening.seed(kernel.name).to_bytes(8, "big")
            profiled = timer(base, parent, seed=seed, listen=lambda *_told: None)
            report, speed = profiled.report, profiled.speed
            yield Decision(
                kernel=kernel.name,
                planted=gain,
                how="whole",
                faster=report.outcome is Outcome.PASSED,
                answer="accepted" if report.outcome is Outcome.PASSED else report.findings[0].code,
                pairs=speed.pairs if speed else 0,
                seconds=profiled.gpu_seconds,
                ratio=speed.ratio if speed else 0.0,
                low=speed.low if speed else None,
                high=speed.high if speed else None,
            )


class Planted:
    """The gains that values of `EXTRA` really made, over all processes."""

    def __init__(self, streams: Sequence[Stream]) -> None:
        self._streams = streams
        self._us = median(us for stream in streams for us in stream.candidate_us)
        self._made = {gain: self._over_processes(gain) for gain in GAINS}

    def _over_processes(self, gain: float) -> float:
        """The gain in percent: a mean over process pairs, which differ from each other."""
        logs = [
            median(
                math.log(old / new)
                for old, new in zip(stream.incumbent_us, stream.candidate_us, strict=True)
            )
            for stream in self._streams
            if stream.planted == gain
        ]
        return 100 * math.expm1(fmean(logs))

    def dial(self, gain: float, extra: int) -> int:
        """A better `EXTRA` for the gain than `extra`; unchanged if near, or if none would help."""
        made = self._made[gain]
        if self._too_small(gain) or self._near(gain):
            return extra
        # If hardly any time was added, the extra work was hidden by other work: try much more.
        factor = gain / made if made > gain / 8 else 8.0
        return max(1, round(extra * min(8.0, factor)))

    def why_not(self, gain: float) -> str:
        """Why this gain could not be planted; empty if it could."""
        if self._too_small(gain):
            return (
                f"{gain:g} % cannot be planted: it is {self._us * gain / 100:.2f} us, and two "
                f"processes may differ by {RULE.apart_us:g} us"
            )
        if not self._near(gain):
            return f"{gain:g} % cannot be planted: its nearest step made {self._made[gain]:.1f} %"
        return ""

    def lines(self) -> Iterator[Line]:
        """The streams with the gain that they claim, and what is missing."""
        kernel = self._streams[0].kernel
        for stream in self._streams:
            if not stream.planted or not self.why_not(stream.planted):
                yield stream
        for gain in GAINS:
            if why := self.why_not(gain):
                yield Missing(kernel=kernel, says=why)

    def _too_small(self, gain: float) -> bool:
        return self._us * gain / 100 <= RULE.apart_us

    def _near(self, gain: float) -> bool:
        return as_planted(1 + self._made[gain] / 100, gain, self._us, RULE)


def on_gpu(place: Place) -> Doors:
    """The doors for a real GPU. Raises WorkbenchError where there is none."""
    if place.index is None:
        raise WorkbenchError(
            "noise is measured, and there is no GPU to measure on",
            where=f"device {place.device}",
            todo="run it where a GPU is, or make its tables again with --from FILE",
        )
    return Doors(hold=partial(holding, place.index))
