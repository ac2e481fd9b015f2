"""Walks an expert kernel backwards, one mechanism at a time, each step gated in both directions.

After KLineage (spec C1.3): a removal is accepted when the kernel without the mechanism is right,
however slow, *and* the forward edit, applied to that kernel and not reversed from the change, gives
back a kernel that passes the gate and is no slower than `floor` of what there was.
"""

import math
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Protocol, TypeVar

from msgspec import structs

from workbench.errors import WorkbenchError
from workbench.gate.records import Blame, GateReport, Verdict
from workbench.gate.timing.sides import CANDIDATE, PARENT
from workbench.kernels.edits.base import EditRefused
from workbench.kernels.edits.registry import EDITS
from workbench.kernels.inverses.registry import Inverse, Removable
from workbench.kernels.source import normalized_sha256
from workbench.lineage.records import (
    Attempt,
    Ended,
    Expert,
    Line,
    Termination,
    WalkLimits,
)
from workbench.lineage.removals import removable
from workbench.lineage.restored import generated, restored, same_code
from workbench.lineage.uncovered import Uncovered, failed_gate, nothing_to_remove, uncovered
from workbench.measure.records import Kind, Speed
from workbench.session.records import Cost


class Bench(Protocol):
    """What judges kernels for a walk. Methods block and never raise for what a kernel does."""

    def judge(self, source: str) -> GateReport:
        """The gate's answer without a word on speed."""

    def beside(self, source: str, state: str, before: GateReport, floor: float) -> GateReport:
        """The gate's answer on a kernel that may be no slower than `floor` of a state.

        `before` is the state's own report; the answer's `speed` is against the state, in pairs
        where it is measured.
        """


ANY_SPEED = 1e-6
"""A floor for what may be as slow as it likes: pairs are taken, and only the rest is judged."""

L = TypeVar("L", bound=Line)
Note = Callable[[Line], None]
"""Called with every line before the next kernel is judged; what it writes survives a kill."""


class Walk:
    """One walk. `lines` are those of an interrupted one: nothing that they hold is judged again."""

    def __init__(
        self, bench: Bench, limits: WalkLimits, note: Note, lines: Sequence[Line] = ()
    ) -> None:
        self._bench = bench
        self._limits = limits
        self._note = note
        self._began = time.monotonic()
        self.lines: list[Line] = list(lines)

    def run(self, source: str, origin: str) -> Ended:
        """Walk until nothing is left or a limit is met; returns how it ended.

        Raises WorkbenchError when the expert fails its own gate, or has nothing to take out.
        """
        expert = self._expert(source, origin)
        ended = self.ended
        while ended is None:
            ended = self._step(expert)
        return ended

    @property
    def attempts(self) -> list[Attempt]:
        """Every attempt so far."""
        return [line for line in self.lines if isinstance(line, Attempt)]

    @property
    def ended(self) -> Ended | None:
        """The end, once there is one."""
        last = self.lines[-1] if self.lines else None
        return last if isinstance(last, Ended) else None

    def _expert(self, source: str, origin: str) -> Expert:
        if self.lines:
            first = self.lines[0]
            if isinstance(first, Expert):
                return first
            raise WorkbenchError("the walk's journal does not begin with its expert")
        began = time.monotonic()
        report = self._bench.judge(source)
        if report.verdict is not Verdict.ACCEPTED:
            raise failed_gate(report, origin)
        if not any(True for _ in removable(source)):
            raise nothing_to_remove(source, origin)
        expert = Expert(source=source, origin=origin, report=report, cost=_cost(report, began))
        return self._write(expert)

    def _step(self, expert: Expert) -> Ended | None:
        """One attempt, or the end."""
        kept = [a for a in self.attempts if a.accepted]
        rejected = len(self.attempts) - len(kept)
        state = kept[-1].source if kept else expert.source
        report = kept[-1].predecessor if kept else expert.report
        if len(kept) >= self._limits.steps:
            return self._end(Termination.STEP_LIMIT, f"after {len(kept)} steps")
        if rejected >= self._limits.rejections:
            return self._end(Termination.REJECTION_LIMIT, f"after {rejected} rejections")
        found = self._next(state, len(kept))
        if found is not None and (spent := self._spent()):
            return self._end(Termination.BUDGET, f"{spent}; {len(kept)} steps")
        if found is not None:
            self._write(self._attempt(len(kept), state, report, found))
            return None
        says = "no inverse finds anything more to take out"
        says = f"{says}; {len(kept)} steps, {rejected} rejections"
        if left := uncovered(state):
            says = f"{says}; left, since no inverse covers it: {_words(left)}"
        return self._end(Termination.COMPLETE, says)

    def _next(self, state: str, number: int) -> tuple[Inverse, str, Removable] | None:
        """What to take out next: what was never tried first, then what failed in earlier states.

        A mechanism that another one rested on may come out once that is gone.
        """
        tried = {(a.category, a.kernel, a.locus): a.state for a in self.attempts}
        again = None
        for inverse, kernel, found in removable(state):
            last = tried.get((inverse.category, kernel, found.locus))
            if last is None:
                return inverse, kernel, found
            if last < number and again is None:
                again = inverse, kernel, found
        return again

    def _spent(self) -> str:
        """Which limit on time is met; empty where none is. Earlier processes' seconds count."""
        limits = self._limits
        gpu = sum(line.cost.gpu_seconds for line in self.lines if not isinstance(line, Ended))
        if limits.gpu_seconds is not None and gpu >= limits.gpu_seconds:
            return f"{gpu:.0f} of {limits.gpu_seconds:g} GPU-seconds are spent"
        wall = time.monotonic() - self._began
        if limits.wall_seconds is not None and wall >= limits.wall_seconds:
            return f"{wall:.0f} of {limits.wall_seconds:g} seconds are over"
        return ""

    def _end(self, how: Termination, says: str) -> Ended:
        return self._write(Ended(how=how, says=says, speed=self._whole()))

    def _whole(self) -> Speed | None:
        """The expert against the naive kernel, in pairs: no product of steps says it."""
        kept = [a for a in self.attempts if a.accepted]
        expert = self.lines[0]
        if not kept or not isinstance(expert, Expert):
            return None
        naive = kept[-1]
        time_of = naive.predecessor.time
        if time_of is None or time_of.kind is not Kind.MEASURED:
            return None
        report = self._bench.beside(expert.source, naive.source, naive.predecessor, ANY_SPEED)
        return report.speed

    def _write(self, line: L) -> L:
        self._note(line)
        self.lines.append(line)
        return line

    def _attempt(
        self, number: int, state: str, before: GateReport, what: tuple[Inverse, str, Removable]
    ) -> Attempt:
        inverse, kernel, found = what
        began = time.monotonic()
        predecessor = self._judged(found.source, state, before, ANY_SPEED)
        said = Attempt(
            state=number,
            category=inverse.category,
            locus=found.locus,
            kernel=kernel,
            says=found.says,
            edit=inverse.edit,
            parameters=dict(found.parameters),
            source=found.source,
            predecessor=predecessor,
            generated=generated(before, predecessor),
            accepted=False,
            cost=_cost(predecessor, began),
        )
        if predecessor.verdict is not Verdict.ACCEPTED:
            return _rejected(said, predecessor.code, f"without it: {predecessor.says}")
        if same_code(before, predecessor):
            why = "the compiler makes the same code without it"
            return _rejected(said, "lineage.same-code", why)
        if groups := restored(said.category, before, predecessor):
            why = f"the compiler has put it back: as much {', '.join(groups)} without it"
            return _rejected(said, "lineage.restored", why)
        return self._forward(said, state, before, began)

    def _forward(self, said: Attempt, state: str, before: GateReport, began: float) -> Attempt:
        """The attempt with its way back up, accepted when that leads to what there was."""
        try:
            forward = EDITS[said.edit].apply(said.source, said.kernel, said.parameters).source
        except EditRefused as refused:
            why = f"the edit {said.edit} does not put it back: {refused.why}"
            return _rejected(said, "lineage.forward-refused", why)
        if normalized_sha256(forward) == normalized_sha256(state):
            return _with(said, forward=forward, same_text=True, ratio=1.0, accepted=True)
        report = self._judged(forward, state, before, self._limits.floor)
        ratio = None if report.speed is None else report.speed.ratio
        spent = _cost_of(said.cost.gpu_seconds + report.gpu_seconds, began)
        said = _with(said, forward=forward, roundtrip=report, ratio=ratio, cost=spent)
        said = _with(said, blocks=blocks(report))
        if report.verdict is not Verdict.ACCEPTED:
            return _rejected(said, report.code, f"put back: {report.says}")
        if said.blocks and min(said.blocks) < self._limits.floor:
            why = f"put back: {min(said.blocks):.3f}x of what there was in one run of pairs"
            return _rejected(said, "lineage.block-slower", why)
        return _with(said, accepted=True)

    def _judged(self, source: str, state: str, before: GateReport, floor: float) -> GateReport:
        """The bench's answer; asked once more where the machine kept it from one."""
        report = self._bench.beside(source, state, before, floor)
        if not _machine_failed(report):
            return report
        again = self._bench.beside(source, state, before, floor)
        return structs.replace(again, gpu_seconds=report.gpu_seconds + again.gpu_seconds)


def _machine_failed(report: GateReport) -> bool:
    """Whether a verdict is open for what the machine did, not the kernel."""
    found = [f for stage in report.stages for f in stage.findings if f.code == report.code]
    blamed = bool(found) and all(f.blame is Blame.MACHINE for f in found)
    return report.verdict is Verdict.UNPROVEN and blamed


def blocks(report: GateReport) -> tuple[float, ...]:
    """The ratio against the parent in each run of pairs that decided; empty when modeled.

    A run has its own workers, warm-up and order, as a trial of KLineage's has (spec 1.1).
    """
    runs = [run.us for run in report.samples if {PARENT, CANDIDATE} <= run.us.keys()]
    return tuple(
        math.exp(median(math.log(a / b) for a, b in zip(us[PARENT], us[CANDIDATE], strict=True)))
        for us in runs
        if us[CANDIDATE]
    )


def _words(left: Sequence[Uncovered]) -> str:
    return ", ".join(one.words() for one in left)


def _rejected(attempt: Attempt, code: str, why: str) -> Attempt:
    return _with(attempt, accepted=False, code=code, why=why)


def _with(attempt: Attempt, **changes: object) -> Attempt:
    return structs.replace(attempt, **changes)


def _cost(report: GateReport, began: float) -> Cost:
    return _cost_of(report.gpu_seconds, began)


def _cost_of(gpu_seconds: float, began: float) -> Cost:
    return Cost(gpu_seconds=gpu_seconds, wall_seconds=time.monotonic() - began)
