"""Walks an expert kernel backwards, one mechanism at a time, each step gated in both directions.

After KLineage: a removal is accepted when the kernel without the mechanism is right, however slow,
*and* the forward edit, applied to that kernel and not reversed from the change, gives a kernel that
passes the gate and is no slower than `floor` of the state before.

Questions are asked only when needed, cheap ones first. Whether the edit restores the mechanism is
decided on the text; whether the compiler generates the same code without it is known after compile;
neither needs a GPU. Then the kernel without the mechanism is checked for correctness, and one run
of pairs measures its speed, which decides nothing. Only the forward kernel is held to the floor, in
the gate's paired decision of two runs. Where its text is the state's it is not judged at all; where
it does the same work (`GateReport.work`: the same machine code, launched alike) it is equally fast
by identity and only compared.
"""

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec import structs

from workbench.errors import WorkbenchError
from workbench.gate.records import GateReport, Verdict
from workbench.kernels.edits.base import EditRefused
from workbench.kernels.inverses.registry import Inverse, Removable
from workbench.kernels.source import normalized_sha256
from workbench.lineage.bench import Bench, Looked, machine_failed, price_of
from workbench.lineage.ideas import Idea, Ideas, NoIdea, NoWayBackError
from workbench.lineage.leaping import leap, loses, modeled, turned
from workbench.lineage.records import (
    Attempt,
    Ended,
    Expert,
    Line,
    Removal,
    Termination,
    WalkLimits,
)
from workbench.lineage.removals import removable
from workbench.lineage.removing import blocks, compiled, not_taken_out, put_back, verdicts
from workbench.lineage.restored import Made, generated
from workbench.lineage.uncovered import Uncovered, failed_gate, nothing_to_remove, uncovered
from workbench.measure.records import Kind, Speed
from workbench.session.records import Cost

L = TypeVar("L", bound=Line)
Note = Callable[[Line], None]
"""Called with every line before the next kernel is judged; what it writes survives a kill."""


class Walk:
    """One walk. `lines` are those of an interrupted one: nothing in them is judged again."""

    def __init__(
        self,
        bench: Bench,
        limits: WalkLimits,
        note: Note,
        lines: Sequence[Line] = (),
        ideas: Ideas | None = None,
    ) -> None:
        self._bench = bench
        self._ideas = ideas
        self._limits = limits
        self._note = note
        self._began = self._counted = time.monotonic()
        self._paired = 0.0
        self.lines: list[Line] = list(lines)

    def run(self, source: str, origin: str) -> Ended:
        """Walk until nothing is left or a limit is met; returns how it ended.

        Raises WorkbenchError when the expert fails its own gate, or has nothing to take out and
        nobody is asked for ideas.
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
        report = self._bench.judge(source)
        if machine_failed(report):
            again = self._bench.judge(source)
            report = structs.replace(again, gpu_seconds=report.gpu_seconds + again.gpu_seconds)
        if report.verdict is not Verdict.ACCEPTED:
            raise failed_gate(report, origin)
        if self._ideas is None and not any(True for _ in removable(source)):
            raise nothing_to_remove(source, origin)
        cost = Cost(gpu_seconds=report.gpu_seconds)
        return self._write(Expert(source=source, origin=origin, report=report, cost=cost))

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
        if found is not None and (spent := self._spent(verdicts(state, found))):
            return self._end(Termination.BUDGET, f"{spent}; {len(kept)} steps")
        if found is not None:
            self._write(self._attempt(len(kept), state, report, found))
            return None
        how, asked = self._by_idea(state, report, len(kept))
        if not how:
            return None
        says = f"no inverse finds anything more to take out{asked}"
        says = f"{says}; {len(kept)} steps, {rejected} rejections"
        if left := uncovered(state):
            says = f"{says}; not removed, since no inverse edit applies: {_words(left)}"
        return self._end(how, says)

    def _by_idea(
        self, state: str, report: GateReport, number: int
    ) -> tuple[Termination | None, str]:
        """One attempt proposed by a model; else how the walk ends, and the reason."""
        if self._ideas is None:
            return Termination.COMPLETE, ""
        failed = sum(bool(a.by) and not a.accepted for a in self.attempts)
        if failed >= self._limits.ideas:
            return Termination.REJECTION_LIMIT, f", and {failed} removals by a model failed"
        if spent := self._spent(2):
            return Termination.BUDGET, f", and a model is not asked: {spent}"
        left = [one.words() for one in uncovered(state)]
        idea = self._ideas.removal(state, left, self.attempts)
        if isinstance(idea, NoIdea):
            how = Termination.BUDGET if idea.spent else Termination.COMPLETE
            return how, f", and {idea.says}"
        self._write(self._imagined(number, state, report, idea))
        return None, ""

    def _next(self, state: str, number: int) -> tuple[Inverse, str, Removable] | None:
        """The next removal: those never tried first, then those that failed in earlier states.

        A mechanism that another one depended on may be removable once that is gone.
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

    def _spent(self, verdicts: int) -> str:
        """The time limit that leaves no room for that many verdicts and the pairs at the end, or
        empty.

        GPU-seconds of earlier processes count.
        """
        limits = self._limits
        wall, gpu = price_of(self.lines).times(verdicts)
        spent = sum(line.cost.gpu_seconds for line in self.lines if not isinstance(line, Ended))
        over = time.monotonic() - self._began
        return _no_room(spent, gpu, limits.gpu_seconds, "GPU-seconds are spent") or _no_room(
            over, wall, limits.wall_seconds, "seconds are over"
        )

    def _end(self, how: Termination, says: str) -> Ended:
        return self._write(Ended(how=how, says=says, speed=self._whole()))

    def _whole(self) -> Speed | None:
        """The speed of the expert over the last kernel, in pairs, not as a product of steps.

        None where times are modeled, and where a limit has no room for it.
        """
        kept = [a for a in self.attempts if a.accepted]
        expert = self.lines[0]
        if not kept or not isinstance(expert, Expert):
            return None
        last = kept[-1]
        time_of = last.predecessor.time
        if time_of is None or time_of.kind is not Kind.MEASURED or self._spent(0):
            return None
        return self._pairs(expert.source, last.source)

    def _pairs(self, source: str, state: str) -> Speed | None:
        """One run of pairs, whose GPU-seconds the next line counts."""
        speed = self._bench.pairs(source, state)
        self._paired += 0.0 if speed is None else speed.gpu_seconds
        return speed

    def _write(self, line: L) -> L:
        """Note a line with all that was spent since the last one: the inspection of the problem,
        the search for what to remove and pairs beside verdicts too."""
        now = time.monotonic()
        cost = structs.replace(
            line.cost,
            gpu_seconds=line.cost.gpu_seconds + self._paired,
            wall_seconds=now - self._counted,
        )
        self._counted, self._paired = now, 0.0
        line = structs.replace(line, cost=cost)
        self._note(line)
        self.lines.append(line)
        return line

    def _attempt(
        self, number: int, state: str, before: GateReport, what: tuple[Inverse, str, Removable]
    ) -> Attempt:
        inverse, kernel, found = what

        def back(said: Attempt) -> Attempt:
            return _with(said, forward=put_back(said.source, kernel, said.edit, said.parameters))

        removal = Removal(
            state=number,
            category=inverse.category,
            locus=found.locus,
            kernel=kernel,
            says=found.says,
            edit=inverse.edit,
            parameters=dict(found.parameters),
            source=found.source,
        )
        return self._taken_out(removal, state, before, at_once=back)

    def _imagined(self, number: int, state: str, before: GateReport, idea: Idea) -> Attempt:
        """A model's idea before both gates; its way back is requested once the kernel is right."""
        tried = len(self.attempts)

        def back(said: Attempt) -> Attempt:
            if self._ideas is None:
                raise NoWayBackError("nobody is asked")
            target = "of unknown speed" if before.time is None else f"{before.time.microseconds} us"
            forward, usd = self._ideas.forward(idea, target, tried)
            cost = structs.replace(said.cost, usd=said.cost.usd + usd)
            return _with(said, forward=forward, cost=cost)

        removal = Removal(
            state=number,
            category=idea.category,
            locus=idea.locus,
            kernel=idea.kernel,
            says=idea.says,
            edit="",
            by=idea.by,
            source=idea.source,
        )
        return self._taken_out(removal, state, before, in_the_end=back, usd=idea.usd)

    def _taken_out(
        self,
        found: Removal,
        state: str,
        before: GateReport,
        *,
        at_once: Callable[[Attempt], Attempt] | None = None,
        in_the_end: Callable[[Attempt], Attempt] | None = None,
        usd: float = 0.0,
    ) -> Attempt:
        """A removal before both gates; free checks come before those that cost."""
        looked = self._bench.look(found.source, state, before, None)
        made = [Made(one, self._bench.operations(one)) for one in (before, looked.report)]
        said = compiled(found, looked.report, generated(*made), Cost(usd=usd))
        passed = looked.report.verdict is Verdict.ACCEPTED
        if passed and (nothing := not_taken_out(found.category, *made)):
            return _rejected(said, *nothing)
        try:
            said = said if at_once is None else at_once(said)
            predecessor = self._answered(looked, found.source, state, before, None)
            said = _with(said, predecessor=predecessor)
            said = _paid(said, predecessor.gpu_seconds)
            if predecessor.verdict is not Verdict.ACCEPTED:
                return _rejected(said, predecessor.code, f"without it: {predecessor.says}")
            said = said if in_the_end is None else in_the_end(said)
        except EditRefused as refused:
            why = f"the edit {said.edit} does not put it back: {refused.why}"
            return _rejected(said, "lineage.forward-refused", why)
        except NoWayBackError as none:
            return _rejected(said, "lineage.no-way-back", f"nothing restores it: {none}")
        return self._forward(said, state, before)

    def _forward(self, said: Attempt, state: str, before: GateReport) -> Attempt:
        """The attempt with its way back, accepted when that leads to the state before."""
        if normalized_sha256(said.forward) == normalized_sha256(state):
            return self._kept(_with(said, same_text=True, ratio=1.0))
        looked = self._bench.look(said.forward, state, before, self._limits.floor)
        passed = looked.report.verdict is Verdict.ACCEPTED
        same = passed and bool(before.work) and looked.report.work == before.work
        if same:
            report = looked.proven()
        else:
            report = self._answered(looked, said.forward, state, before, self._limits.floor)
        ratio = 1.0 if same else None if report.speed is None else report.speed.ratio
        said = _with(said, roundtrip=report, same_work=same, ratio=ratio)
        said = _paid(said, report.gpu_seconds)
        said = _with(said, blocks=blocks(report))
        if report.verdict is not Verdict.ACCEPTED:
            return _rejected(said, report.code, f"put back: {report.says}")
        if said.blocks and min(said.blocks) < self._limits.floor:
            why = f"put back: {min(said.blocks):.3f}x of what there was in one run of pairs"
            return _rejected(said, "lineage.block-slower", why)
        return self._kept(said)

    def _kept(self, said: Attempt) -> Attempt:
        """The accepted attempt, with the later steps that it pays with.

        One that is slower by itself is timed with them where times are measured and limits have
        room.
        """
        kept = [a for a in self.attempts if a.accepted]
        above = [said, *reversed(kept)]
        steps = leap([turned(one.predecessor.speed) for one in above])
        said = _with(said, accepted=True, leap=steps)
        expert = self.lines[0]
        if steps == 1 or not isinstance(expert, Expert):
            return said
        last = kept[-steps] if steps <= len(kept) else None
        top = expert.report if last is None else last.predecessor
        source = expert.source if last is None else last.source
        speed = modeled(said.predecessor.time, top.time)
        if speed is None and loses(turned(said.predecessor.speed)) and not self._spent(0):
            speed = self._pairs(source, said.source)
        return _with(said, leap_speed=speed)

    def _answered(
        self, looked: Looked, source: str, state: str, before: GateReport, floor: float | None
    ) -> GateReport:
        """The bench's report; asked for once more where the machine prevented a verdict."""
        report = looked.judged()
        if not machine_failed(report):
            return report
        again = self._bench.look(source, state, before, floor).judged()
        return structs.replace(again, gpu_seconds=report.gpu_seconds + again.gpu_seconds)


def _no_room(spent: float, price: float, limit: float | None, words: str) -> str:
    """`142 of 170 seconds are over, and what comes next takes about 35`, or nothing."""
    if limit is None or spent + price <= limit:
        return ""
    ahead = f", and what comes next takes about {price:.0f}" if spent < limit else ""
    return f"{spent:.0f} of {limit:g} {words}{ahead}"


def _words(left: Sequence[Uncovered]) -> str:
    return ", ".join(one.words() for one in left)


def _rejected(attempt: Attempt, code: str, why: str) -> Attempt:
    return _with(attempt, accepted=False, code=code, why=why)


def _with(attempt: Attempt, **changes: object) -> Attempt:
    return structs.replace(attempt, **changes)


def _paid(attempt: Attempt, gpu_seconds: float) -> Attempt:
    """The attempt with a verdict's GPU-seconds added to its cost."""
    cost = attempt.cost
    return _with(attempt, cost=structs.replace(cost, gpu_seconds=cost.gpu_seconds + gpu_seconds))
