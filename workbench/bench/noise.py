"""How often a timing errs, counted on a GPU: equal kernels, and gains of known size, decided anew.

The decisions are the product's: its workers, turns, clock, contents, checks and rule. Most are
single runs in workers that live on, since a decision's noise is in its pairs; some are whole ones.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from statistics import median

from msgspec import Struct, structs

from workbench.bench.noise_kernels import NoiseKernel
from workbench.bench.noise_record import Decision, Line, Missing, Stream
from workbench.engine.devices import Place
from workbench.errors import WorkbenchError
from workbench.gate.candidate import candidate_of
from workbench.gate.correctness.cases import derive
from workbench.gate.correctness.protocol import OpenReference
from workbench.gate.problem.records import ProblemReport, ShapeReport
from workbench.gate.records import Outcome
from workbench.gate.timing.paired_run import Noisy, PairedRun
from workbench.gate.timing.play import OpenSides, gather
from workbench.gate.timing.sides import Sides, SidesSpec, open_sides
from workbench.gate.timing.stage import GpuTimer, TimerSettings, holding
from workbench.gate.timing.turns import Side, SideFault
from workbench.isolation.workshop import Workshop
from workbench.measure.gpuwatch import Watch
from workbench.measure.pairs import Answer, PairRule, PairSummary, summarize
from workbench.measure.rounds import affordable

GAINS = (1.0, 2.0, 5.0)
"""Percent of time that a slower twin takes more."""
RULE = PairRule()

_BASE, _TWIN = "base", "twin"
_DIAL_PAIRS = 80
_STREAM_PAIRS = {0.0: 600, 1.0: 300, 2.0: 1000, 5.0: 300}
"""By planted percent: for the true ratio, and to resample from."""
_STREAM_SECONDS = 5.0
_NEAR = 0.15
"""A gain is as planted within this share of it."""
_OPENINGS = 3
"""Of a kernel's workers until its dial is set."""
_EQUAL = 52
"""Decisions between equals for each kernel, so that six make more than 300."""
_THEN = (2.0, 2.0, 5.0, 2.0, 2.0, 1.0, 2.0, 2.0, 0.0)
"""What is decided then, in turn, while there is time; 1 % is the threshold itself, and dear."""
_WHOLE_SHARE = 0.12
"""Of the time, for whole decisions."""
_LEAST_WHOLE = 4
_WHOLE_US = 70.0
"""Whole decisions are made on the kernel whose time is nearest to this."""


class Doors(Struct, frozen=True):
    """What tests put something else for: the GPU and who takes turns on it."""

    hold: Callable[..., AbstractContextManager[Watch]]
    opened: OpenSides = open_sides
    clock: Callable[[], float] = time.monotonic


class Bench:
    """Measures on one GPU for about `seconds`."""

    def __init__(self, place: Place, workshop: Workshop, seconds: float, doors: Doors) -> None:
        self._place = place
        self._workshop = workshop
        self._doors = doors
        self._until = doors.clock() + seconds
        self._whole_seconds = _WHOLE_SHARE * seconds
        self._numbers = itertools.count()

    def lines(self, kernels: tuple[NoiseKernel, ...]) -> Iterator[Line]:
        """Everything that is worth keeping, as it is measured."""
        set_dials: dict[str, Mapping[float, int]] = {}
        took: dict[str, float] = {}
        with self._doors.hold(lambda: None) as watch:
            for place, kernel in enumerate(kernels):
                left = self._until - self._whole_seconds - self._doors.clock()
                until = self._doors.clock() + left / (len(kernels) - place)
                try:
                    for line in self._kernel(kernel, watch, until, set_dials):
                        if isinstance(line, Stream):
                            took[line.kernel] = median(line.candidate_us)
                        yield line
                except (SideFault, Noisy) as fault:
                    yield Missing(kernel=kernel.name, says=str(fault)[:500])
        if took:
            name = min(took, key=lambda name: abs(took[name] - _WHOLE_US))
            kernel = next(kernel for kernel in kernels if kernel.name == name)
            yield from self._whole(kernel, set_dials[name][2.0])

    # -- single runs -----------------------------------------------------------------------------

    def _kernel(
        self,
        kernel: NoiseKernel,
        watch: Watch,
        until: float,
        set_dials: dict[str, Mapping[float, int]],
    ) -> Iterator[Line]:
        dials = {gain: max(1, round(gain * kernel.percent)) for gain in GAINS}
        for opening in range(_OPENINGS):
            with self._opened(kernel, dials) as sides:
                table = _Table(sides, watch, partial(self._seed, kernel))
                table.warm_up()
                corrected = dict(dials)
                for gain, extra in dials.items():
                    ratio = table.summary(gain, _DIAL_PAIRS).ratio
                    corrected[gain] = _dial(extra, ratio, gain)
                if corrected == dials or opening == _OPENINGS - 1:
                    set_dials[kernel.name] = dials
                    yield from self._decided(kernel, table, until)
                    return
            dials = corrected

    def _decided(self, kernel: NoiseKernel, table: "_Table", until: float) -> Iterator[Line]:
        for gain in (0.0, *GAINS):
            yield table.stream(kernel.name, gain)
        for _ in range(_EQUAL):
            yield table.decision(kernel.name, 0.0)
        for gain in itertools.cycle(_THEN):
            if self._doors.clock() >= until:
                return
            yield table.decision(kernel.name, gain)

    def _opened(
        self, kernel: NoiseKernel, dials: Mapping[float, int]
    ) -> AbstractContextManager[Sides]:
        slower = ((_side(gain), extra) for gain, extra in dials.items())
        spec = SidesSpec(
            problem=_opening(kernel, lends=self._place.index is not None),
            candidates=tuple(
                (name, kernel.candidate(extra, name))
                for name, extra in ((_BASE, 0), (_TWIN, 0), *slower)
            ),
            with_reference=False,
            target=self._place.target,
            seed=self._seed(kernel).to_bytes(8, "big"),
        )
        return self._doors.opened(spec, self._workshop)

    def _seed(self, kernel: NoiseKernel) -> int:
        return derive(b"noise", kernel.name, next(self._numbers))

    # -- whole decisions -------------------------------------------------------------------------

    def _whole(self, kernel: NoiseKernel, extra: int) -> Iterator[Line]:
        """The gate's own decisions, from workers made to the confirmation, equal and 2 %."""
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
        base = candidate_of(kernel.candidate(0, _BASE))
        slower = candidate_of(kernel.candidate(extra, _side(2.0)))
        twin = candidate_of(kernel.candidate(0, _TWIN))
        for number, (gain, parent) in enumerate(itertools.cycle(((0.0, twin), (2.0, slower)))):
            if number >= _LEAST_WHOLE and self._doors.clock() >= self._until:
                return
            seed = self._seed(kernel).to_bytes(8, "big")
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


class _Table:
    """Warm workers of one kernel, of which any two may be timed against each other."""

    def __init__(self, sides: Sides, watch: Watch, seed: Callable[[], int]) -> None:
        self._sides = {side.name: side for side in sides.sides}
        self._fresh = sides.fresh
        self._watch = watch
        self._seed = seed
        self._round_seconds = 0.0
        self._turned = itertools.cycle((False, True))

    def warm_up(self) -> None:
        """Every worker, to its pace."""
        run = self._run(tuple(self._sides.values()))
        run.warm_up()
        self._round_seconds = 2 / len(self._sides) * run.round_seconds

    def _run(self, sides: tuple[Side, ...]) -> PairedRun:
        return PairedRun(
            sides, self._fresh, seed=self._seed(), swapped=next(self._turned), watch=self._watch
        )

    def _pair(self, gain: float) -> tuple[PairedRun, str]:
        """A run of the base against a slower twin or an equal one, and the incumbent's name."""
        incumbent = _side(gain) if gain else _TWIN
        return self._run((self._sides[incumbent], self._sides[_BASE])), incumbent

    def summary(self, gain: float, pairs: int) -> PairSummary:
        """So many pairs, reduced."""
        run, incumbent = self._pair(gain)
        run.extend(pairs)
        rule = structs.replace(RULE, first=pairs, cap=pairs)
        return summarize(run.samples[incumbent], run.samples[_BASE], rule)

    def stream(self, kernel: str, gain: float) -> Stream:
        """Many pairs, whatever they say."""
        run, incumbent = self._pair(gain)
        began = time.monotonic()
        run.extend(max(100, min(_STREAM_PAIRS[gain], int(_STREAM_SECONDS / self._round_seconds))))
        return Stream(
            kernel=kernel,
            planted=gain,
            incumbent_us=_kept(run, incumbent),
            candidate_us=_kept(run, _BASE),
            seconds=time.monotonic() - began,
        )

    def decision(self, kernel: str, gain: float) -> Decision:
        """One run, stopped by the rule."""
        run, incumbent = self._pair(gain)
        rule = affordable(RULE, self._round_seconds)
        began = time.monotonic()
        doubts: list[str] = []

        def look(run: PairedRun) -> None:
            found = (run.disagreement(name) for name in (incumbent, _BASE))
            doubts.extend(one.says for one in found if one is not None)

        answer = gather(run, rule, incumbent=incumbent, candidate=_BASE, look=look)
        summary = summarize(run.samples[incumbent], run.samples[_BASE], rule)
        known = summary.low > 0
        return Decision(
            kernel=kernel,
            planted=gain,
            how="one run",
            faster=answer is Answer.FASTER,
            answer=str(answer),
            pairs=summary.pairs,
            seconds=time.monotonic() - began,
            ratio=summary.ratio,
            low=summary.low if known else None,
            high=summary.high if known else None,
            incumbent_us=_kept(run, incumbent),
            candidate_us=_kept(run, _BASE),
            doubt=doubts[-1] if doubts else "",
        )


def on_gpu(place: Place) -> Doors:
    """The real doors. Raises WorkbenchError where there is no GPU."""
    if place.index is None:
        raise WorkbenchError(
            "noise is measured, and there is no GPU to measure on",
            where=f"device {place.device}",
            todo="run it where a GPU is, or make its tables again with --from FILE",
        )
    return Doors(hold=partial(holding, place.index))


def _opening(kernel: NoiseKernel, *, lends: bool) -> OpenReference:
    problem = kernel.problem()
    return OpenReference(
        source=problem.source,
        values=problem.full.values,
        build_seed=derive(b"noise", "build"),
        precision=problem.precision,
        tolerance=problem.tolerance,
        selections=problem.selections,
        lends=lends,
    )


def _side(gain: float) -> str:
    return f"plus {gain:g} %"


def _dial(extra: int, ratio: float, gain: float) -> int:
    """`EXTRA` for a gain, when so much of it made that ratio; unchanged where that is near."""
    made = 100 * (ratio - 1)
    if abs(made - gain) <= _NEAR * gain:
        return extra
    # Where nothing shows, the work was hidden beside other work: much more is tried.
    factor = gain / made if made > gain / 8 else 8.0
    return max(1, round(extra * min(8.0, factor)))


def _kept(run: PairedRun, side: str) -> tuple[float, ...]:
    return tuple(round(us, 3) for us in run.samples[side])
