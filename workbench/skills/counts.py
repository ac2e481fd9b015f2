"""How far a library has been tried: cards with a kept step, on two problems, with a risk seen."""

from collections.abc import Iterable

from msgspec import Struct

from workbench.skills.card import Skill
from workbench.skills.evidence import rows_that_count
from workbench.skills.records import Card, EvidenceRow


class Counts(Struct, frozen=True, kw_only=True):
    """How many cards have what a card should have. Only rows that count are counted."""

    cards: int
    admitted: int
    tried: int
    draft: int
    kept: int
    """Number of cards with a step that was kept."""
    kept_measured: int
    """Number of cards with a step that measured pairs kept."""
    two_problems: int
    """Tried on two problems or more, with an answer about its speed or a wrong result."""
    two_problems_measured: int
    two_problems_right: int = 0
    """Found right on two problems or more, on the CPU or a GPU, whatever its speed."""
    risk_seen: int
    """Number of cards with a risk that says where it was seen."""
    poor: dict[str, tuple[str, ...]]
    """By card, what it lacks of: `a kept step`, `a second problem`, `a risk that was seen`; of a
    second problem maybe only its time."""


def counts(skills: Iterable[Skill]) -> Counts:
    """What the evidence of these cards amounts to."""
    every = tuple(skills)
    rows = [rows_that_count(skill.card.evidence) for skill in every]
    measured = [[row for row in own if row.kind == "measured"] for own in rows]
    lacking = {s.card.id: tuple(_lacks(s, own)) for s, own in zip(every, rows, strict=True)}
    standings = [skill.standing for skill in every]
    return Counts(
        cards=len(every),
        admitted=standings.count("admitted"),
        tried=standings.count("tried"),
        draft=standings.count("draft"),
        kept=sum(map(_kept, rows)),
        kept_measured=sum(map(_kept, measured)),
        two_problems=sum(_problems(own) >= 2 for own in rows),
        two_problems_measured=sum(_problems(own) >= 2 for own in measured),
        two_problems_right=sum(len(_right(skill.card)) >= 2 for skill in every),
        risk_seen=sum(_seen(skill) for skill in every),
        poor={name: what for name, what in lacking.items() if what},
    )


def _lacks(skill: Skill, rows: tuple[EvidenceRow, ...]) -> Iterable[str]:
    if not _kept(rows):
        yield "a kept step"
    if _problems(rows) < 2:
        judged = {row.problem for row in rows if row.problem} | _right(skill.card)
        yield "a second problem" if len(judged) < 2 else "a time on a second problem"
    if not _seen(skill):
        yield "a risk that was seen"


def _kept(rows: Iterable[EvidenceRow]) -> bool:
    return any(row.verdict == "accepted" for row in rows)


def _problems(rows: Iterable[EvidenceRow]) -> int:
    return len({row.problem for row in rows if row.problem})


def _right(card: Card) -> set[str]:
    """Problems where the gate found the card's candidates right: a time is only asked for then."""
    timed = {row.problem for row in card.evidence if row.ratio is not None}
    return {*timed, *(proof.problem for proof in card.proof)} - {""}


def _seen(skill: Skill) -> bool:
    return any(risk.seen for risk in skill.card.risk)
