"""Warm workers of one kernel of `bench noise`: several processes of each text, timed in pairs.

Two processes of the same kernel can differ by a constant. It is the same in all their pairs, so
only more processes can reveal it, not more pairs.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial

from msgspec import Struct

from workbench.bench.noise_kernels import NoiseKernel
from workbench.bench.noise_record import Decision, Stream
from workbench.engine.devices import Place
from workbench.gate.correctness.asking import opening
from workbench.gate.correctness.cases import derive
from workbench.gate.correctness.protocol import OpenReference
from workbench.gate.timing.paired_run import PairedRun
from workbench.gate.timing.sides import Sides, SidesSpec, open_sides
from workbench.gate.timing.timed_run import HoldGpu, OpenSides, gather, prepared_sides
from workbench.gate.timing.turns import Side
from workbench.isolation.workshop import Workshop
from workbench.measure.gpuwatch import NoWatch, Watch
from workbench.measure.pairs import Answer, PairRule, summarize
from workbench.measure.rounds import affordable

TABLES = 4
"""Process pairs of every kernel, each in workers of its own."""
BASE, TWIN = "base", "twin"
RULE = PairRule()
_LEAST_STREAM = 30
_STREAM_SECONDS = 3.0


class Doors(Struct, frozen=True):
    """What tests replace: the GPU, its workers and the clock."""

    hold: HoldGpu
    opened: OpenSides = open_sides
    clock: Callable[[], float] = time.monotonic


def slower(gain: float) -> str:
    """Name of the side that takes `gain` percent longer."""
    return f"plus {gain:g} %"


class Table:
    """A process each of the base, its twin and the slower ones; any two can be timed as a pair."""

    def __init__(self, kernel: str, number: int, sides: Sides, seed: Callable[[], int]) -> None:
        self.kernel = kernel
        self.number = number
        self._sides = {side.name: side for side in sides.sides}
        self._fresh = sides.fresh
        self._stand_in = sides.stand_in
        self._watch: Watch = NoWatch()
        self._seed = seed
        self._round_seconds = 0.0
        self._turned = itertools.cycle((False, True))

    def warm_up(self, watch: Watch) -> None:
        """Warm up every worker; `watch` observes the GPU, which is held alone from now on."""
        self._watch = watch
        run = self._run(tuple(self._sides.values()))
        run.warm_up()
        self._round_seconds = 2 / len(self._sides) * run.round_seconds

    def has(self, gain: float) -> bool:
        """Whether the table has a slower process of that gain; 0 means the twin."""
        return not gain or slower(gain) in self._sides

    def _run(self, sides: tuple[Side, ...]) -> PairedRun:
        return PairedRun(
            sides,
            self._fresh,
            seed=self._seed(),
            swapped=next(self._turned),
            watch=self._watch,
            stand_in=self._stand_in,
        )

    def _pair(self, gain: float) -> tuple[PairedRun, str]:
        """A run of the base against a slower twin or an equal one, and the incumbent's name."""
        incumbent = slower(gain) if gain else TWIN
        return self._run((self._sides[incumbent], self._sides[BASE])), incumbent

    def stream(self, gain: float, pairs: int) -> Stream:
        """Take `pairs` pairs, or fewer where they take long, without deciding anything."""
        run, incumbent = self._pair(gain)
        began = time.monotonic()
        run.extend(max(_LEAST_STREAM, min(pairs, int(_STREAM_SECONDS / self._round_seconds))))
        return Stream(
            kernel=self.kernel,
            planted=gain,
            table=self.number,
            incumbent_us=_kept(run, incumbent),
            candidate_us=_kept(run, BASE),
            seconds=time.monotonic() - began,
        )

    def decision(self, gain: float) -> Decision:
        """Take pairs until the rule decides."""
        run, incumbent = self._pair(gain)
        rule = affordable(RULE, self._round_seconds)
        began = time.monotonic()
        doubts: list[str] = []

        def look(run: PairedRun) -> bool:
            found = (run.disagreement(name) for name in (incumbent, BASE))
            doubts.extend(one.says for one in found if one is not None)
            return True

        answer = gather(run, rule, incumbent=incumbent, candidate=BASE, look=look)
        summary = summarize(run.samples[incumbent], run.samples[BASE], rule)
        known = summary.low > 0
        return Decision(
            kernel=self.kernel,
            planted=gain,
            table=self.number,
            how="one run",
            faster=answer is Answer.FASTER,
            answer=str(answer),
            pairs=summary.pairs,
            seconds=time.monotonic() - began,
            ratio=summary.ratio,
            low=summary.low if known else None,
            high=summary.high if known else None,
            incumbent_us=_kept(run, incumbent),
            candidate_us=_kept(run, BASE),
            doubt=doubts[-1] if doubts else "",
        )


class Opening(Struct, frozen=True):
    """Makes the tables of kernels. Workers start in parallel, while others may use the GPU too,
    which the shared lock allows."""

    place: Place
    workshop: Workshop
    doors: Doors
    numbers: Iterator[int]

    def seed(self, kernel: str) -> int:
        """A new seed at every call."""
        return derive(b"noise", kernel, next(self.numbers))

    @contextmanager
    def tables(
        self, kernel: NoiseKernel, dials: Mapping[float, int], always: float
    ) -> Iterator[Sequence[Table]]:
        """All tables of a kernel. The first has every gain in `dials`, the others only `always`.

        Raises SideFault or GpuBusy.
        """
        one = {gain: extra for gain, extra in dials.items() if gain == always}
        contexts = [
            self._prepared(kernel, dials if number == 0 else one) for number in range(TABLES)
        ]
        with ExitStack() as stack:
            yield [
                Table(kernel.name, number, sides, partial(self.seed, kernel.name))
                for number, sides in enumerate(_all_entered(stack, contexts))
            ]

    def _prepared(
        self, kernel: NoiseKernel, dials: Mapping[float, int]
    ) -> AbstractContextManager[Sides]:
        more = ((slower(gain), extra) for gain, extra in dials.items())
        spec = SidesSpec(
            problem=opening_of(kernel, lends=self.place.index is not None),
            candidates=tuple(
                (name, kernel.candidate(extra, name))
                for name, extra in ((BASE, 0), (TWIN, 0), *more)
            ),
            with_reference=False,
            target=self.place.target,
            seed=self.seed(kernel.name).to_bytes(8, "big"),
        )
        return prepared_sides(spec, self.doors.opened, self.workshop, self.doors.hold, lambda: None)


def _all_entered(
    stack: ExitStack, contexts: Sequence[AbstractContextManager[Sides]]
) -> list[Sides]:
    """Enter all contexts in parallel; the stack leaves those that were entered in any case."""
    own = [ExitStack() for _ in contexts]
    for one in own:
        stack.push(one)
    with ThreadPoolExecutor(len(contexts)) as pool:
        return list(pool.map(lambda one, context: one.enter_context(context), own, contexts))


def opening_of(kernel: NoiseKernel, *, lends: bool) -> OpenReference:
    """The request for the reference's worker."""
    problem = kernel.problem()
    return opening(problem, problem.full, derive(b"noise", "build"), lends=lends)


def _kept(run: PairedRun, side: str) -> tuple[float, ...]:
    return tuple(round(us, 3) for us in run.samples[side])
