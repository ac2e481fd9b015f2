"""Doubts about the full shape that remain although nothing that was compared is wrong."""

from msgspec import structs

from workbench.gate.correctness.full.protocol import ComparedStored, TracedFull
from workbench.gate.correctness.numbers import check_numbers
from workbench.gate.correctness.protocol import Compared
from workbench.gate.problem.records import ShapeReport
from workbench.gate.records import Blame, Evidence, Finding

_WRITTEN = 0.4
_WRITTEN_OR_FILLED = 0.6
"""Least share of an output that kernels must write; second, the same including correct zeros, where
host code filled it (ours)."""
_WRITTEN_SURELY = 0.999
"""The same where every drawn program takes the same path as one that ran (ours)."""
_WRITTEN_EXACTLY = 1.0 - 1e-9
"""The same where counts are exact: all programs were tracked, or all drawn ones take one path."""


def doubts(
    full: ShapeReport, answer: TracedFull, compared: ComparedStored, seed: bytes
) -> list[Finding]:
    """Reasons not to call the full shape right; mostly none."""
    found = _unwritten(full, answer, compared, seed)
    if compared.tentative and not sum(compared.elements) and not found:
        found = _flagged(full, compared, seed)
    if answer.changing and not found:
        found = [_counts(full, answer.changing, seed)]
    return found


def placed(finding: Finding, full: ShapeReport, seed: bytes) -> Finding:
    """The finding with what is needed to reproduce it: case, shape and seed."""
    place: Evidence = {"case": "a sample of programs", "shape": full.shape, "seed": seed.hex()}
    return structs.replace(finding, evidence={**finding.evidence, **place})


def _percent(share: float) -> str:
    """A share as text; it is never rounded up to `all`."""
    if share == 1.0:
        return "all"
    return f"{100 * share:.2g} %" if share < 0.99 else f"all but {100 * (1 - share):.2g} %"


def _flagged(full: ShapeReport, compared: ComparedStored, seed: bytes) -> list[Finding]:
    """The doubt about stores that depend on a flag, so were not compared, and look wrong."""
    wrong = check_numbers(Compared(measured=compared.tentative))
    if not wrong:
        return []
    says = (
        f"at shape {full.shape} what programs store rests on a flag that others may set; as it is "
        f"here, {wrong[0].says}"
    )
    code = "correctness.rests-on-flags"
    finding = structs.replace(wrong[0], code=code, says=says, blame=Blame.MACHINE)
    return [placed(finding, full, seed)]


def _unwritten(
    full: ShapeReport, answer: TracedFull, compared: ComparedStored, seed: bytes
) -> list[Finding]:
    """The doubt about an output that the kernels of a call leave partly unwritten.

    Zeros from host code count as written where the reference has zeros.
    """
    for number, share in enumerate(answer.written):
        says = "" if share is None else _says_unwritten(number, share, answer, compared)
        if says:
            evidence: Evidence = {"output": number, "share": share}
            code = "correctness.output-not-written"
            says = f"at shape {full.shape} {says}"
            finding = Finding(code=code, says=says, blame=Blame.MACHINE, evidence=evidence)
            return [placed(finding, full, seed)]
    return []


def _says_unwritten(number: int, share: float, answer: TracedFull, compared: ComparedStored) -> str:
    """What is missing in one output; empty if nothing is, as far as that can be told."""
    filled = compared.right_as_filled.get(number)
    unwritten = compared.right_unwritten.get(number)
    if unwritten is not None:
        if unwritten == 1.0:
            return ""
        return (
            f"no kernel writes some places of output {number}, and {_percent(1 - unwritten)} of "
            "those that were drawn are not the zeros that host code put there"
        )
    if filled is None and any(one.filled and one.output == number for one in answer.groups):
        return ""  # the reference is too expensive for what was drawn
    least = _WRITTEN if filled is None else _WRITTEN_OR_FILLED
    nowhere = filled == 0.0 and compared.right_at_ends.get(number) == 0.0
    if answer.all_ways and (filled is None or (nowhere and answer.uniform)):
        # Zeros from host code that are right nowhere are not part of an answer.
        estimated = answer.followed and not answer.uniform
        least = _WRITTEN_SURELY if estimated else _WRITTEN_EXACTLY
    if share + (filled or 0.0) >= least:
        return ""
    return (
        f"the kernels of one call write {_percent(share)} of output {number}, going by a sample: "
        "what the rest holds was not compared"
    )


def _counts(full: ShapeReport, path: str, seed: bytes) -> Finding:
    says = (
        f"at shape {full.shape} a second call changes what host code remembers ({path}): "
        "what later calls do was not compared"
    )
    finding = Finding(code="correctness.counts-calls", says=says, blame=Blame.MACHINE)
    return placed(finding, full, seed)
