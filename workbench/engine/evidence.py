"""What a recorded session says for and against the cards it used: each gated step is a row."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct

from workbench.gate.records import GateReport, Verdict
from workbench.measure.records import Kind, Time
from workbench.problems.sidecar import family_of
from workbench.session.bundle import recorded
from workbench.session.reader import SessionReader
from workbench.session.records import Answer, SessionSettings, Transition
from workbench.skills.records import Admission, EvidenceRow


class CardEvidence(Struct, frozen=True, kw_only=True):
    """What one transition says of one card."""

    card: str
    row: EvidenceRow
    trial: Admission
    """The row as a held-out trial; the person says whether it was held out."""


def evidence_of(session: Path) -> tuple[CardEvidence, ...]:
    """Every decided step of a session's folder or bundle that a card led to, by number.

    Raises WorkbenchError for what is neither.
    """
    with recorded(session) as reader:
        return tuple(_rows(reader))


def _rows(reader: SessionReader) -> Iterator[CardEvidence]:
    settings = reader.settings()
    family = family_of(reader.problem().sidecar)
    for summary in reader.summaries():
        if not summary.card or summary.answer is Answer.PENDING:
            continue
        transition = reader.transition(summary.number)
        gate = transition.gate
        before, after = _times(gate)
        row = EvidenceRow(
            session=settings.name,
            commit=summary.commit,
            device=_device(gate, settings),
            kind="measured" if gate.time and gate.time.kind is Kind.MEASURED else "modeled",
            before_us=None if before is None else round(before.microseconds, 3),
            after_us=None if after is None else round(after.microseconds, 3),
            paired=gate.speed.paired if gate.time and gate.speed else None,
            verdict=_verdict(transition),
            problem=settings.problem,
            family=family,
            target=settings.target,
            says=_says(transition),
        )
        yield CardEvidence(card=summary.card, row=row, trial=_trial(row))


def _times(gate: GateReport) -> tuple[Time | None, Time | None]:
    """Before and after, of one kind and one run; neither where one of them is missing."""
    before, after = gate.against, gate.time
    if before is None or after is None or before.kind is not after.kind:
        return None, None
    return before, after


def _device(gate: GateReport, settings: SessionSettings) -> str:
    """What the time is for: the GPU that was measured, or the target that was modeled."""
    return (gate.time.device if gate.time else "") or gate.device or settings.device


def _verdict(transition: Transition) -> Literal["accepted", "rejected", "unproven"]:
    """The gate's verdict; a person's veto is a no as well."""
    if transition.gate.verdict is Verdict.UNPROVEN:
        return "unproven"
    return "accepted" if transition.decision.answer is Answer.ACCEPTED else "rejected"


def _says(transition: Transition) -> str:
    if transition.decision.answer is Answer.ACCEPTED:
        return ""
    if transition.decision.answer is Answer.VETOED:
        return f"vetoed: {transition.decision.reason}"
    return f"{transition.gate.code}: {transition.gate.says}"


def _trial(row: EvidenceRow) -> Admission:
    accepted = row.verdict == "accepted"
    return Admission(
        target=f"{row.problem} on {row.device}",
        held_out=True,
        accepted=accepted,
        effect_observed=accepted and row.ratio is not None and row.ratio > 1.0,
        kind=row.kind,
        session=row.session,
        commit=row.commit,
    )
