"""Sides whose times are written down, and a timer that lets them take turns."""

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence

from workbench.gate.candidate import candidate_of
from workbench.gate.correctness.nest import Branch
from workbench.gate.correctness.protocol import Made, Reading
from workbench.gate.problem.records import ProblemReport, ShapeReport
from workbench.gate.profile import Profiled
from workbench.gate.records import Finding
from workbench.gate.timing.ring_protocol import Prepared
from workbench.gate.timing.sides import CANDIDATE, PARENT, REFERENCE, SEED, Sides, SidesSpec
from workbench.gate.timing.stage import GpuTimer, TimerSettings
from workbench.gate.timing.turns import Empty, SideFault, StandIn, Turn, nobody
from workbench.measure.gpulock import GpuBusy
from workbench.measure.gpuwatch import GpuState
from workbench.measure.pairs import PairRule
from workbench.measure.records import Speed
from workbench.problems.records import Problem, Shape, WorkFloor

SEED_BYTES = bytes(range(16))
NEW, OLD, FIRST = candidate_of("# new"), candidate_of("# old"), candidate_of("# first")

Times = Callable[[int, int], float]
"""Microseconds of a side's turn: by run (from 0) and turn within it (from 0)."""


def noisy(us: float, *, jitter: float = 0.01, seed: int = 0) -> Times:
    """Around `us`, with a jitter that is the same in every test."""
    return lambda run, turn: us * random.Random(f"{seed} {run} {turn}").gauss(1.0, jitter)


EAGER, SEED_TIMES = noisy(100.0, seed=9), noisy(200.0, seed=7)


def empty_turns(late_us: float) -> Empty:
    """An empty worker's turns, on a machine that wakes up so late."""

    def turn(ahead: float) -> Turn:
        reading = Reading(
            device_us=2.0, host_us=10.0, wall_us=ahead + 12.0 + late_us, ahead_us=ahead
        )
        return Turn(reading=reading, judge_us=reading.wall_us + ahead + 2_000.0)

    return Empty(held=(turn(120.0),) * 7, bare=(turn(0.0),) * 7)


class ScriptedSide:
    """Takes the time that it is told to."""

    def __init__(
        self,
        name: str,
        times: Times,
        run: int,
        *,
        wrong_at: int | None = None,
        fault: Finding | None = None,
        hides_us: float = 0.0,
        judge_us: float | None = None,
        late_us: float = 0.0,
        late_of_four: int = 0,
        late_until: int = 1 << 30,
    ) -> None:
        self.name = name
        self.late_of_four = late_of_four
        """So many turns of four keep the judge waiting, five milliseconds each."""
        self.late_until = late_until
        """From this turn on none does."""
        self.empty = empty_turns(late_us)
        self.closely = 0
        self.checkable = name != REFERENCE
        self.turns = 0
        self.checks = 0
        self._times = times
        self._run = run
        self._wrong_at = wrong_at
        self._fault = fault
        self._hides_us = hides_us
        self._judge_us = judge_us

    def turn(self, *, bare: bool) -> Turn:
        if self._fault is not None:
            raise SideFault(self.name, self._fault)
        us = self._times(self._run, self.turns)
        self.turns += 1
        ahead = 0.0 if bare else 120.0
        # What is hidden outlasts the events of both kinds of turns.
        wall = (ahead or 30.0) + us + self._hides_us + 5.0
        reading = Reading(device_us=us, host_us=30.0, wall_us=wall, ahead_us=ahead)
        judge_us = wall + ahead + 2_000.0 if self._judge_us is None else self._judge_us
        late = self.turns % 4 < self.late_of_four and self.turns < self.late_until
        judge_us += 5_000.0 if late else 0.0
        return Turn(reading=reading, judge_us=judge_us)

    def check(self, *, closely: bool) -> Sequence[Finding]:
        self.checks += 1
        self.closely += closely
        if self._wrong_at is not None and self.turns > self._wrong_at:
            return [Finding(code="correctness.error-above-bound", says="output 0 is off")]
        return []


def together(
    sides: tuple[ScriptedSide, ...],
    fresh: Callable[[Sequence[str]], None],
    stand_in: StandIn = nobody,
) -> Sides:
    """Sides with contents that are nothing."""
    nest = Branch("list", ())
    made = Made(inputs=nest, entries=(), outputs=nest, expected=(), changes_state=False, fp64=True)
    prepared = Prepared(made=made)
    return Sides(sides, fresh, prepared, "landlock+seccomp", stand_in)


class Watched:
    """A GPU whose clocks are written down, state by state; the last one stays."""

    def __init__(
        self,
        states: Sequence[GpuState] = (),
        strangers: Sequence[str] = (),
        neighbours: Sequence[str] = (),
    ) -> None:
        self._states = list(states) or [GpuState(sm_clock_mhz=1980, throttle_reasons=0)]
        self._strangers = tuple(strangers)
        self._neighbours = tuple(neighbours)

    def state(self) -> GpuState:
        return self._states.pop(0) if len(self._states) > 1 else self._states[0]

    def strangers(self) -> tuple[str, ...]:
        return self._strangers

    def neighbours(self) -> tuple[str, ...]:
        return self._neighbours


class Match:
    """A timer on scripted sides; `specs` and `sides` tell who was asked to take turns."""

    def __init__(
        self,
        *,
        new: Times,
        old: Times | None = None,
        eager: Times = EAGER,
        first: Times = SEED_TIMES,
        watch: Watched | None = None,
        work: WorkFloor | None = None,
        counted: bool = False,
        seed_kernel: bool = False,
        busy: bool = False,
        decides: bool = True,
        confirms: bool = True,
        found: Speed | None = None,
        stand_in: StandIn = nobody,
        **scripts: dict,
    ) -> None:
        self.times = {CANDIDATE: new, PARENT: old, REFERENCE: eager, SEED: first}
        self.scripts = scripts
        self.specs: list[SidesSpec] = []
        self.sides: list[dict[str, ScriptedSide]] = []
        self.fresh = 0
        self.told: list[str] = []
        self.held: list[str] = []
        self._watch = watch or Watched()
        self._busy = busy
        self._stand_in = stand_in
        shape = ShapeReport(shape="full", work=work, counted=counted)
        report = ProblemReport(problem="mine", shapes=(shape,))
        self._timer = GpuTimer(
            Problem(name="mine", path=None, source="", shapes=(Shape(name="full"),)),
            lambda: report,
            TimerSettings(
                target="sm90",
                device="NVIDIA H200",
                device_index=0,
                rule=PairRule(),
                decides=decides,
                confirms=confirms,
                found=found,
            ),
            None,
            seed_kernel=FIRST if seed_kernel else None,
            hold=self._hold,
            opened=self._opened,
        )

    def judged(self, parent=OLD) -> Profiled:
        if self.times[PARENT] is None:
            parent = None

        def listen(_done: int, _total: int, says: str) -> None:
            self.told.append(says)

        return self._timer(NEW, parent, seed=SEED_BYTES, listen=listen)

    @contextlib.contextmanager
    def _hold(self, waits: Callable[[], None], *, shared: bool = False) -> Iterator[Watched]:
        if self._busy:
            waits()
            raise GpuBusy("the GPU was not free within 1800 s")
        self.held.append("shared" if shared else "alone")
        yield self._watch

    @contextlib.contextmanager
    def _opened(self, spec: SidesSpec, _workshop: object) -> Iterator[Sides]:
        names = [name for name, _ in spec.candidates]
        names += [REFERENCE] if spec.with_reference else []
        run = len(self.specs)
        sides = {n: ScriptedSide(n, self.times[n], run, **self.scripts.get(n, {})) for n in names}
        self.specs.append(spec)
        self.sides.append(sides)
        yield together(tuple(sides.values()), self._count, self._stand_in)

    def _count(self, _names: Sequence[str]) -> None:
        self.fresh += 1


def codes(profiled: Profiled) -> list[str]:
    """Codes of all findings, the decisive one first."""
    return [finding.code for finding in profiled.report.findings]
