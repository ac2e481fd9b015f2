"""An ended walk as the transitions of a lineage session, forward: simplest kernel to expert."""

import difflib
from collections.abc import Iterator, Sequence

from msgspec import structs

from workbench.gate.records import Finding, GateReport, Outcome, Stage, StageReport, Verdict
from workbench.kernels.edits.registry import EDITS
from workbench.kernels.source import normalized_sha256
from workbench.lineage.leaping import modeled, turned
from workbench.lineage.records import NAIVE, START, Attempt, Ended, Expert, Line, Termination
from workbench.lineage.removals import removable
from workbench.session.records import Answer, BackwardStep, Decision, Transition
from workbench.skills.records import Plan


def transitions(lines: Sequence[Line], at: str) -> Iterator[tuple[Transition, str]]:
    """Every transition with its kernel: the accepted chain first, then the rejected attempts.

    `at` is when they are written, UTC in ISO 8601. Raises ValueError for lines that do not begin
    with an expert.
    """
    expert, attempts = _parts(lines)
    ended = next((line for line in lines if isinstance(line, Ended)), None)
    whole = None if ended is None else ended.speed
    kept = [a for a in attempts if a.accepted]
    states = [(expert.source, expert.report), *((a.source, a.predecessor) for a in kept)]
    start = states[-1][1]
    yield _seed(states[-1], expert, ended, at, len(kept)), states[-1][0]
    for number, attempt in enumerate(reversed(kept), start=1):
        source, report = states[attempt.state]
        step = _forward(number, attempt, source, report, start, at)
        if number == len(kept) and whole is not None:
            step = structs.replace(step, gate=structs.replace(step.gate, versus_seed=whole))
        yield step, source
    number = len(kept)
    for attempt in attempts:
        if not attempt.accepted:
            number += 1
            parent = len(kept) - attempt.state
            yield _rejected(number, parent, attempt, states[attempt.state][0], at), attempt.source


def _parts(lines: Sequence[Line]) -> tuple[Expert, list[Attempt]]:
    if not lines or not isinstance(lines[0], Expert):
        raise ValueError("a walk's lines begin with its expert")
    return lines[0], [line for line in lines if isinstance(line, Attempt)]


def _origin(source: str, expert: Expert, ended: Ended | None, out: int) -> str:
    """The origin of a chain's first kernel: naive only where the walk is complete."""
    if ended is not None and ended.how is Termination.COMPLETE:
        return f"{NAIVE}: walked back from {expert.origin}"
    left = sum(1 for _ in removable(source))
    return f"{START}: {out} mechanisms out of {expert.origin}, {left} left"


def _seed(
    first: tuple[str, GateReport], expert: Expert, ended: Ended | None, at: str, out: int
) -> Transition:
    origin = _origin(first[0], expert, ended, out)
    how = "" if ended is None else f"; {ended.how}: {ended.says}"
    return Transition(
        number=0,
        # It was timed against the kernel above it; as a seed it has no parent.
        gate=structs.replace(first[1], speed=None, against=None),
        decision=Decision(answer=Answer.ACCEPTED, by="gate", reason=f"{origin}{how}", at=at),
        # What is no step's: the expert's own verdict, and the pairs at the end.
        cost=expert.cost if ended is None else expert.cost.plus(ended.cost),
        created=at,
        origin=origin,
    )


def _forward(
    number: int, attempt: Attempt, source: str, report: GateReport, start: GateReport, at: str
) -> Transition:
    """The step from the kernel without the mechanism to the one with it.

    Its speed comes from the pairs in which the two were timed when the mechanism was removed,
    inverted.
    """
    gate = structs.replace(
        report,
        against=attempt.predecessor.time,
        speed=turned(attempt.predecessor.speed),
        versus_seed=modeled(start.time, report.time),
    )
    return Transition(
        number=number,
        parent=number - 1,
        plan=_plan(attempt),
        gate=gate,
        decision=Decision(answer=Answer.ACCEPTED, by="gate", reason=_kept(attempt), at=at),
        cost=attempt.cost,
        created=at,
        origin=f"edit {attempt.edit}" if attempt.edit else f"model {attempt.by}",
        backward=_step(attempt, source),
    )


def _kept(attempt: Attempt) -> str:
    if attempt.same_text:
        says = "removed and restored: exactly the same kernel"
    elif attempt.same_work:
        says = "taken out and put back: the same machine code, launched alike, so not timed"
    else:
        says = f"taken out and put back: {attempt.ratio:.3f}x of what there was"
    if attempt.leap == 1:
        return says
    gain = "" if attempt.leap_speed is None else f", {attempt.leap_speed.says()}"
    return f"{says}; pays with the next {attempt.leap - 1}, as a leap of {attempt.leap}{gain}"


def _rejected(number: int, parent: int, attempt: Attempt, state: str, at: str) -> Transition:
    """A removal that was rejected, under the kernel that it was tried on."""
    return Transition(
        number=number,
        parent=parent,
        plan=structs.replace(_plan(attempt), title=f"without {_title(attempt)}"),
        gate=_rejecting(attempt),
        decision=Decision(answer=Answer.REJECTED, by="gate", reason=attempt.why, at=at),
        cost=attempt.cost,
        created=at,
        origin=f"inverse of {attempt.edit}" if attempt.edit else f"model {attempt.by}",
        backward=_step(attempt, state),
    )


def _rejecting(attempt: Attempt) -> GateReport:
    """The report that rejects it; the walk's own finding where both gates passed."""
    for report in (attempt.predecessor, attempt.roundtrip):
        if report is not None and report.verdict is not Verdict.ACCEPTED:
            return report
    found = Finding(code=attempt.code, says=attempt.why)
    stage = StageReport(
        stage=Stage.PROFILE, outcome=Outcome.FAILED, says=attempt.why, findings=(found,)
    )
    stages = tuple(s for s in attempt.predecessor.stages if s.stage is not Stage.PROFILE)
    return structs.replace(
        attempt.predecessor,
        verdict=Verdict.REJECTED,
        stage=Stage.PROFILE,
        code=attempt.code,
        says=attempt.why,
        stages=(*stages, stage),
    )


def _title(attempt: Attempt) -> str:
    return f"{attempt.category} at {attempt.locus}" if attempt.locus else attempt.category


def _plan(attempt: Attempt) -> Plan:
    return Plan(
        card="",
        title=_title(attempt),
        intent=EDITS[attempt.edit].says if attempt.edit else attempt.says,
        kernel=attempt.kernel,
        edit=attempt.edit,
        parameters=attempt.parameters,
        reason=f"the expert has it: {attempt.says}",
    )


def _step(attempt: Attempt, state: str) -> BackwardStep:
    roundtrip = "the same text" if attempt.same_text else ""
    if attempt.roundtrip is not None:
        roundtrip = attempt.roundtrip.says
    return BackwardStep(
        category=attempt.category,
        locus=attempt.locus,
        before=normalized_sha256(attempt.source),
        after=normalized_sha256(state),
        backward=_diff(state, attempt.source),
        forward=_diff(attempt.source, attempt.forward) if attempt.forward else "",
        same_text=attempt.same_text,
        predecessor=attempt.predecessor.says,
        roundtrip=roundtrip,
        ratio=attempt.ratio,
        generated={name: (out, had) for name, (had, out) in attempt.generated.items()},
        leap=attempt.leap,
        leap_speed=attempt.leap_speed,
    )


def _diff(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), n=1)
    return "".join(lines)
