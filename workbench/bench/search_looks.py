"""One look of `bench search` at one candidate: a rung of the ladder, asked of the gate."""

import os
import time
from datetime import UTC, datetime
from functools import cached_property

from msgspec import Struct, structs

from workbench.bench.search_records import BASE, Looked
from workbench.bench.variants import variants
from workbench.engine.devices import Place
from workbench.engine.measuring import NEVER_REACHED
from workbench.errors import WorkbenchError
from workbench.gate.candidate import Candidate, candidate_of
from workbench.gate.correctness.cases import SEED_BYTES
from workbench.gate.counters import NcuProfiler
from workbench.gate.judge import GateSettings, Sitting, Told
from workbench.gate.problem.inspect import inspect_problem
from workbench.gate.problem.records import ProblemReport
from workbench.gate.profile import Timer
from workbench.gate.records import GateReport, Outcome, Stage, StageReport, Verdict
from workbench.gate.sanitizer.check import SANITIZER
from workbench.gate.timing.stage import PAIRS, GpuTimer, TimerSettings
from workbench.gate.timing.timed_run import FIRST_CALLS, OPENING, WAITING
from workbench.isolation.workshop import Workshop
from workbench.kernels.source import normalized_sha256
from workbench.measure.baselines import versions
from workbench.measure.gpuwatch import gpu_behind
from workbench.measure.pairs import PairRule
from workbench.measure.records import Kind
from workbench.measure.trust import why_not_trusted
from workbench.problems.records import Problem
from workbench.search.paying import SMOKE
from workbench.search.rungs import Ladder, Rung

_SPEED_ONLY = ("profile.not-faster", "profile.slower", "profile.cannot-tell")
"""Codes that say how fast, and nothing against the candidate."""
_PAIRS = 28
"""Gathered at the rungs above the first timed one (ours): twice what a decision takes, so that a
replay has something to draw from, and little enough for many candidates."""
_FEW = PairRule().first
"""In each run of the top rung: what they say is known from the rung below."""
_ALL = 3
"""The gate's highest rung."""
_ANY = 1e-3
"""A threshold that all pairs reach: two runs are made, and decide nothing."""


class Made(Struct, frozen=True):
    """A candidate of a stream."""

    name: str
    source: str
    place: int


class Looker:
    """Looks at candidates of one problem; for several threads, once `facts` is known."""

    def __init__(self, problem: Problem, place: Place, workshop: Workshop, count: int) -> None:
        """`count` candidates are made, the seed among them."""
        self.problem, self.place, self._workshop = problem, place, workshop
        ladder = Ladder.load()
        self.rungs = (ladder if place.index is not None else ladder.without_gpu()).rungs
        self._seed = os.urandom(SEED_BYTES)
        self._begun: dict[str, Sitting] = {}
        if problem.seed is None:
            what = f"{problem.name} has no seed to make candidates from"
            raise WorkbenchError(what, where=str(problem.path))
        self._trusted = not why_not_trusted(problem.family, place.target)
        """As in a run: on a GPU nothing is modeled where that may not rank."""
        self._text = problem.seed.read_text(encoding="utf-8")
        found = variants(self._text, count, grids=True)
        self.made = [Made(*one, number) for number, one in enumerate(found.items())]

    @cached_property
    def facts(self) -> ProblemReport:
        """Of the problem; takes seconds at first."""
        return inspect_problem(self.problem, self._workshop)

    @cached_property
    def profiler(self) -> NcuProfiler | None:
        """Reads the counters of the place's GPU; None without one."""
        index = self.place.index
        return None if index is None else NcuProfiler(self.problem, self.place.target, index)

    def look(self, one: Made, rung: Rung) -> Looked:
        """One candidate at one rung, through the gate."""
        index = None if rung.place == 0 else self.place.index
        settings = GateSettings(
            target=self.place.target,
            device="cpu" if index is None else self.place.device,
            device_index=index,
            rung=0 if index is not None and rung.name == SMOKE else rung.spec.gate,
            seed=self._seed,
        )
        top = rung is self.rungs[-1]
        began = time.monotonic()
        begun = self._begin(one, settings)
        seconds = time.monotonic() - began
        report = begun.report()
        if rung.place > 0 or self.place.index is None or self._trusted:
            report = begun.again(settings, self._workshop, _unheard).go_on(
                parent=None if index is None else self._parent,
                timer=self._timer(index, rung, top=top),
                profiler=self.profiler if top else None,
            )
        # Beside the GPU of others, the next problem's inspection, say: no policy pays for that.
        waited = _part(report, Stage.PROFILE, WAITING)
        found = self._line(one, rung, report, time.monotonic() - began - waited)
        return structs.replace(found, begun_seconds=round(seconds, 3)) if rung.place == 0 else found

    def _begin(self, one: Made, settings: GateSettings) -> Sitting:
        """The candidate after policy and compile, which are asked once."""
        if one.name not in self._begun:
            candidate = candidate_of(one.source)
            sitting = Sitting(
                candidate, self.problem, lambda: self.facts, settings, self._workshop, _unheard
            )
            sitting.begin()
            self._begun[one.name] = sitting
        return self._begun[one.name]

    @cached_property
    def _parent(self) -> Candidate:
        return candidate_of(self._text)

    def _timer(self, index: int | None, rung: Rung, *, top: bool) -> Timer | None:
        if index is None:
            return None
        wanted = min(_FEW if top else _PAIRS, int(rung.spec.pairs.value))
        # One run that stops at its first look; at the top two, since any time is above the floor.
        threshold = _ANY if top else NEVER_REACHED
        return GpuTimer(
            self.problem,
            lambda: self.facts,
            TimerSettings(
                target=self.place.target,
                device=self.place.device,
                device_index=index,
                rule=PairRule(threshold=threshold, first=wanted, cap=wanted),
            ),
            self._workshop,
        )

    def _line(self, made: Made, rung: Rung, report: GateReport, seconds: float) -> Looked:
        against = [one for one in report.stages if _speaks_against(one, rung)]
        modeled = report.time if report.time and report.time.kind is Kind.MODELED else None
        return Looked(
            problem=self.problem.name,
            family=self.problem.family,
            target=self.place.target,
            device=self.place.device,
            source=self._ground,
            kind=Kind.MEASURED if report.samples else Kind.MODELED,
            candidate=made.name,
            place=made.place,
            technique=technique(made.name),
            sha256=normalized_sha256(made.source),
            work=report.work,
            rung=rung.name,
            passed=not against,
            unproven=bool(against) and report.verdict is Verdict.UNPROVEN,
            code=against[0].findings[0].code if against else "",
            says=against[0].says if against else _passed_with(report, rung),
            modeled_us=None if modeled is None else modeled.microseconds,
            runs=report.samples,
            gpu_seconds=round(report.gpu_seconds, 3),
            wall_seconds=round(seconds, 3),
            pairs_seconds=_part(report, Stage.PROFILE, PAIRS),
            opening_seconds=sum(
                _part(report, Stage.PROFILE, part) for part in (OPENING, FIRST_CALLS)
            ),
            sanitizer_seconds=_part(report, Stage.CORRECTNESS, SANITIZER),
            counters_seconds=0.0 if report.ncu is None else round(report.ncu.seconds, 3),
        )

    @cached_property
    def _ground(self) -> str:
        gpu = None if self.place.index is None else gpu_behind(self.place.index)
        held = {} if gpu is None else versions(gpu)
        words = [self.place.device, *(f"{name} {version}" for name, version in held.items())]
        return ", ".join([*words, datetime.now(UTC).date().isoformat()])


def _passed_with(report: GateReport, rung: Rung) -> str:
    """What comparing said, where it was asked all there is: which tools could not look, say."""
    told = report.report(Stage.CORRECTNESS)
    return told.says if told is not None and rung.spec.gate == _ALL else ""


def _part(report: GateReport, stage: Stage, part: str) -> float:
    """Seconds of one part of a stage; 0 where it has none."""
    told = report.report(stage)
    return 0.0 if told is None else told.parts.get(part, 0.0)


def _unheard(told: Told) -> None:
    """Nobody listens to a recording's looks."""


def technique(name: str) -> str:
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
