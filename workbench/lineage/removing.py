"""What a walk derives about one removal besides the gate: way back, verdicts, generated code."""

import math
from collections.abc import Mapping
from statistics import median

from msgspec import structs

from workbench.gate.records import GateReport
from workbench.gate.timing.sides import CANDIDATE, PARENT
from workbench.kernels.edits.base import EditRefused
from workbench.kernels.edits.registry import EDITS
from workbench.kernels.inverses.registry import Inverse, Removable
from workbench.kernels.source import normalized_sha256
from workbench.lineage.records import Attempt, Removal
from workbench.lineage.restored import CHOICES, Made, restored, same_code
from workbench.session.records import Cost
from workbench.skills.records import Parameter


def compiled(
    removal: Removal, predecessor: GateReport, generated: dict[str, tuple[int, int]], cost: Cost
) -> Attempt:
    """The attempt with what the compiler shows."""
    return Attempt(
        **structs.asdict(removal),
        predecessor=predecessor,
        generated=generated,
        accepted=False,
        cost=cost,
    )


def verdicts(state: str, what: tuple[Inverse, str, Removable]) -> int:
    """How many verdicts a removal takes at most: its own, and one of its way back where the text
    differs.
    """
    inverse, kernel, found = what
    try:
        back = put_back(found.source, kernel, inverse.edit, found.parameters)
    except EditRefused:
        return 0
    return 1 + (normalized_sha256(back) != normalized_sha256(state))


def put_back(source: str, kernel: str, edit: str, parameters: Mapping[str, Parameter]) -> str:
    """The kernel that the forward edit makes of one without the mechanism. Raises EditRefused."""
    return EDITS[edit].apply(source, kernel, dict(parameters)).source


def not_taken_out(category: str, before: Made, after: Made) -> tuple[str, str] | None:
    """Code and sentence where the generated code shows that nothing was removed."""
    if category not in CHOICES and (says := same_code(before, after)):
        return "lineage.same-code", says
    if says := restored(category, before, after):
        return "lineage.restored", says
    return None


def blocks(report: GateReport) -> tuple[float, ...]:
    """The ratio against the parent in each run of pairs that decided; empty when modeled.

    A run has its own workers, warm-up and order, as a trial of KLineage's has.
    """
    runs = [run.us for run in report.samples if {PARENT, CANDIDATE} <= run.us.keys()]
    return tuple(
        math.exp(median(math.log(a / b) for a, b in zip(us[PARENT], us[CANDIDATE], strict=True)))
        for us in runs
        if us[CANDIDATE]
    )
