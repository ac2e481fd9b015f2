"""Which rows of a card's evidence count: those that say something, and of two the better one."""

from collections.abc import Iterable

from workbench.measure.trust import why_not_trusted
from workbench.skills.records import EvidenceRow

SAME = 0.002
"""Relative difference below which two modeled times are the same: the model does not see what the
edit changes. No noise: both are modeled from one sample of programs (ours)."""


def is_evidence(row: EvidenceRow) -> bool:
    """Whether a row is evidence for or against its card.

    A gate that was unproven is none, nor is a modeled time where the model was not shown to rank
    such kernels or does not see the change. A wrong result is evidence everywhere.
    """
    if row.verdict == "unproven":
        return False
    if row.kind == "measured" or row.ratio is None:
        return True
    return abs(row.ratio - 1.0) >= SAME and not why_not_trusted(row.family, row.target)


def rows_that_count(rows: Iterable[EvidenceRow]) -> tuple[EvidenceRow, ...]:
    """The rows that count, in their order.

    Those that are evidence; a measured row on a problem and target replaces modeled ones there.
    """
    every = [row for row in rows if is_evidence(row)]
    measured = {(r.problem, r.target) for r in every if r.kind == "measured"}
    return tuple(r for r in every if r.kind == "measured" or (r.problem, r.target) not in measured)
