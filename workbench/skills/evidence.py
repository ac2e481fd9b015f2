"""Which rows of a card's evidence count: those that say something, and of two the better one."""

from collections.abc import Iterable

from workbench.measure.trust import why_not_trusted
from workbench.skills.records import EvidenceRow

SAME = 0.002
"""Modeled times nearer than this part of one another are the same: the model does not see what the
edit changes. It is no noise: both are modeled from one sample of programs (ours)."""


def speaks(row: EvidenceRow) -> bool:
    """Whether a row says something of its card.

    A doubt of the gate does not, and neither does a modeled time where the model was not shown to
    rank such kernels or does not see the change. What is wrong is wrong everywhere.
    """
    if row.verdict == "unproven":
        return False
    if row.kind == "measured" or row.ratio is None:
        return True
    return abs(row.ratio - 1.0) >= SAME and not why_not_trusted(row.family, row.target)


def heard(rows: Iterable[EvidenceRow]) -> tuple[EvidenceRow, ...]:
    """The rows that count, in their order: those that speak, but what was measured on a problem and
    target silences what was only modeled there."""
    every = [row for row in rows if speaks(row)]
    measured = {(r.problem, r.target) for r in every if r.kind == "measured"}
    return tuple(r for r in every if r.kind == "measured" or (r.problem, r.target) not in measured)
