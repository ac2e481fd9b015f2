"""Records a stream of candidates: each at every rung once, with what that cost, until time is up.

Candidates are variants of the problem's seed. The seed is the parent of all pairs, so that any two
candidates can be compared later through it. On a GPU the pairs of a rung are gathered whatever they
say: which of them a policy would have asked for follows from the samples.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from statistics import median

from msgspec import Struct

from workbench.bench.search_records import BASE, Looked, keep, known, read
from workbench.bench.variants import variants
from workbench.engine.devices import Place
from workbench.engine.measuring import flavors, profiler_of
from workbench.errors import WorkbenchError
from workbench.gate.candidate import Candidate, candidate_of
from workbench.gate.correctness.cases import SEED_BYTES
from workbench.gate.judge import JOB_MODULES, GateSettings, judge
from workbench.gate.problem.inspect import inspect_problem
from workbench.gate.problem.records import ProblemReport
from workbench.gate.profile import Timer
from workbench.gate.records import GateReport, Outcome, Stage, StageReport, Verdict
from workbench.gate.timing.stage import GpuTimer, TimerSettings
from workbench.isolation.workshop import Workshop
from workbench.kernels.source import normalized_sha256
from workbench.measure.baselines import versions
from workbench.measure.gpuwatch import gpu_behind
from workbench.measure.pairs import PairRule
from workbench.measure.records import Kind
from workbench.problems.load import load_problem, shipped_problems
from workbench.problems.records import Problem
from workbench.search.rungs import Ladder, Rung

Hear = Callable[[str], None]

_SPEED_ONLY = ("profile.not-faster", "profile.slower", "profile.cannot-tell")
"""Codes that say how fast, and nothing against the candidate."""
_SIDE_BY_SIDE = 4
"""Candidates that are compiled at once; nothing of that uses a GPU."""
_CONFIRMED = 2
"""Candidates of a problem that go to the top rung before others get to it at all: the fastest."""
_PAIRS = 100
"""Gathered at the rungs above the first timed one (ours: their median is known to about 0.3 %)."""

_NONE, _ANY = 1e3, 1e-3
"""Thresholds that no pairs reach, and that all do: pairs are gathered, and decide nothing."""


class RecordAsk(Struct, frozen=True, kw_only=True):
    """What to record, and for how long."""

    problems: tuple[str, ...] = ()
    """Shipped names or files; every shipped problem when empty."""
    count: int = 8
    """Candidates of each problem, the seed among them."""
    seconds: float
    """For all problems together; each has its share of what is left."""
    file: Path
    """What is there already is not looked at again."""


def record(ask: RecordAsk, place: Place, hear: Hear) -> Iterator[Looked]:
    """Lines as they are kept. Raises WorkbenchError for a problem or device that cannot be used."""
    done = read(ask.file) if ask.file.exists() else []
    names = ask.problems or tuple(sorted(shipped_problems()))
    ends = time.monotonic() + ask.seconds
    with Workshop(
        device_index=place.index,
        preload=JOB_MODULES,
        share_device_memory=place.index is not None,
    ) as workshop:
        for number, name in enumerate(names):
            left = ends - time.monotonic()
            if left <= 0:
                hear(f"{name}: no time left")
                continue
            until = time.monotonic() + left / (len(names) - number)
            workshop.warm(*flavors(place.index))
            stream = _Stream(load_problem(name), place, workshop, until, done)
            for looked in stream.looks(ask.count, hear):
                keep(ask.file, looked)
                yield looked


def _technique(name: str) -> str:
    """The edit that sets a variant apart: the first of its name, the seed left aside."""
    first, _, rest = name.partition("; ")
    return (rest if first == BASE and rest else first).partition(" ")[0]


def _speaks_against(report: StageReport, rung: Rung) -> bool:
    """Whether a stage found something else than a speed.

    What the model cannot tell at the bottom rung is left to the rungs that look.
    """
    if report.stage is not Stage.PROFILE:
        return report.outcome in {Outcome.FAILED, Outcome.UNPROVEN}
    if report.outcome is Outcome.UNPROVEN:
        return rung.spec.gate > 0 and report.findings[0].code not in _SPEED_ONLY
    return report.outcome is Outcome.FAILED and report.findings[0].code not in _SPEED_ONLY


class _Made(Struct, frozen=True):
    """A candidate of a stream."""

    name: str
    source: str
    place: int


class _Stream:
    """The candidates of one problem on their way up."""

    def __init__(
        self,
        problem: Problem,
        place: Place,
        workshop: Workshop,
        until: float,
        done: Sequence[Looked],
    ) -> None:
        self._problem, self._place, self._workshop, self._until = problem, place, workshop, until
        ladder = Ladder.load()
        self._rungs = (ladder if place.index is not None else ladder.without_gpu()).rungs
        self._found = [one for one in done if one.problem == problem.name]
        self._seed = os.urandom(SEED_BYTES)
        if problem.seed is None:
            what = f"{problem.name} has no seed to make candidates from"
            raise WorkbenchError(what, where=str(problem.path))
        self._text = problem.seed.read_text(encoding="utf-8")

    @cached_property
    def _facts(self) -> ProblemReport:
        return inspect_problem(self._problem, self._workshop)

    def looks(self, count: int, hear: Hear) -> Iterator[Looked]:
        """First what needs no GPU, then every rung but the top one, then that for the fastest."""
        made = [_Made(*one, place) for place, one in enumerate(variants(self._text, count).items())]
        done = known(self._found)
        base, *others = self._rungs
        new = [one for one in made if (self._problem.name, one.name, base.name) not in done]
        # Before any thread asks, and so that no candidate's cost has the problem's in it.
        hear(f"{self._problem.name}: {len(self._facts.shapes)} shapes, {len(made)} candidates")
        with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
            for looked in pool.map(lambda one: self._look(one, base), new):
                yield self._told(looked, hear)
        middle = others[:-1] if self._place.index is not None else others
        for one in made:
            yield from self._climbed(one, middle, hear)
        top = others[len(middle) :]
        for one in self._by_speed(made) if top else ():
            yield from self._climbed(one, top, hear)

    def _climbed(self, one: _Made, rungs: Sequence[Rung], hear: Hear) -> Iterator[Looked]:
        for rung in rungs:
            if self._may(one.name, rung) and self._in_time(rung, hear):
                yield self._told(self._look(one, rung), hear)

    def _told(self, looked: Looked, hear: Hear) -> Looked:
        self._found.append(looked)
        word = "passed" if looked.passed else looked.code
        cost = f"{looked.gpu_seconds:.1f} GPU-s, {looked.wall_seconds:.1f} s"
        hear(f"{looked.problem}: {looked.candidate}: {looked.rung} {word}, {cost}")
        return looked

    def _may(self, name: str, rung: Rung) -> bool:
        """Whether a candidate is still to be looked at: it passed below, and is no seed."""
        own = {one.rung: one for one in self._found if one.candidate == name}
        below = self._rungs[rung.place - 1].name
        timed = name != BASE or self._place.index is None
        return timed and rung.name not in own and below in own and own[below].passed

    def _in_time(self, rung: Rung, hear: Hear) -> bool:
        """Whether one more is likely to end before this problem's time does.

        Time for one look at the top rung is kept: without its price nothing can be replayed.
        """
        top = self._rungs[-1]
        kept = 0.0 if any(one.rung == top.name for one in self._found) else self._costs(top)
        costs = self._costs(rung) + (kept if rung is not top else 0.0)
        if time.monotonic() + costs <= self._until:
            return True
        hear(f"{self._problem.name}: no time for {rung.name}, {costs:.0f} s with what comes after")
        return False

    def _costs(self, rung: Rung) -> float:
        """Seconds of one look, by those that there were."""
        seen = [one.wall_seconds for one in self._found if one.rung == rung.name]
        return median(seen) if seen else rung.spec.wall.value

    def _by_speed(self, made: Sequence[_Made]) -> list[_Made]:
        """Those that were timed, the fastest first; then the slowest, for what it costs there."""
        ratios = {
            one.candidate: median(one.runs[0].us["candidate"]) / median(one.runs[0].us["parent"])
            for one in self._found
            if one.runs
        }
        ranked = sorted((one for one in made if one.name in ratios), key=lambda o: ratios[o.name])
        first, rest = ranked[:_CONFIRMED], ranked[_CONFIRMED:]
        return [*first, *rest[::-1]]

    def _look(self, one: _Made, rung: Rung) -> Looked:
        """One candidate at one rung, through the gate."""
        index = None if rung.spec.gate == 0 else self._place.index
        settings = GateSettings(
            target=self._place.target,
            device="cpu" if index is None else self._place.device,
            device_index=index,
            rung=rung.spec.gate,
            seed=self._seed,
        )
        top = rung is self._rungs[-1]
        began = time.monotonic()
        report = judge(
            candidate_of(one.source),
            self._problem,
            lambda: self._facts,
            settings,
            self._workshop,
            parent=None if index is None else self._parent,
            timer=self._timer(index, rung, top=top),
            profiler=profiler_of(self._problem, settings) if top else None,
        )
        return self._line(one, rung, report, time.monotonic() - began)

    @cached_property
    def _parent(self) -> Candidate:
        return candidate_of(self._text)

    def _timer(self, index: int | None, rung: Rung, *, top: bool) -> Timer | None:
        if index is None:
            return None
        wanted = min(_PAIRS, int(rung.spec.pairs.value))
        # One run that stops at its first look; at the top two, since any time is above the floor.
        threshold = _ANY if top else _NONE
        return GpuTimer(
            self._problem,
            lambda: self._facts,
            TimerSettings(
                target=self._place.target,
                device=self._place.device,
                device_index=index,
                rule=PairRule(threshold=threshold, first=wanted, cap=wanted),
            ),
            self._workshop,
        )

    def _line(self, made: _Made, rung: Rung, report: GateReport, seconds: float) -> Looked:
        against = [one for one in report.stages if _speaks_against(one, rung)]
        modeled = report.time if report.time and report.time.kind is Kind.MODELED else None
        return Looked(
            problem=self._problem.name,
            family=self._problem.family,
            target=self._place.target,
            device=self._place.device,
            source=self._ground,
            kind=Kind.MEASURED if report.samples else Kind.MODELED,
            candidate=made.name,
            place=made.place,
            technique=_technique(made.name),
            sha256=normalized_sha256(made.source),
            work=report.work,
            rung=rung.name,
            passed=not against,
            unproven=bool(against) and report.verdict is Verdict.UNPROVEN,
            code=against[0].findings[0].code if against else "",
            says=against[0].says if against else "",
            modeled_us=None if modeled is None else modeled.microseconds,
            runs=report.samples,
            gpu_seconds=round(report.gpu_seconds, 3),
            wall_seconds=round(seconds, 3),
        )

    @cached_property
    def _ground(self) -> str:
        gpu = None if self._place.index is None else gpu_behind(self._place.index)
        held = {} if gpu is None else versions(gpu)
        words = [self._place.device, *(f"{name} {version}" for name, version in held.items())]
        return ", ".join([*words, datetime.now(UTC).date().isoformat()])
