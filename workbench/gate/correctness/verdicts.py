"""Findings of a trial besides its numbers. Pure."""

from collections.abc import Sequence

from msgspec import structs

from workbench.gate.correctness.protocol import Operator
from workbench.gate.records import Blame, Evidence, Finding
from workbench.kernels.records import Way

NEEDS = "a GPU, or a smaller first [[shape]] in the sidecar"

NUMERIC = (
    "correctness.error-above-bound",
    "correctness.non-finite",
    "correctness.low-variance-error",
    "correctness.side-effect-missing",
)


class Wrong(Exception):
    """A call is wrong; no further one is made."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__(findings[0].says)
        self.findings = tuple(findings)


def cannot(says: str, blame: Blame, needs: str = "") -> Finding:
    """The finding that the stage cannot answer, without blaming the candidate."""
    evidence: Evidence = {"needs": needs} if needs else {}
    return Finding(code="correctness.cannot-judge", says=says, blame=blame, evidence=evidence)


def turned(way: Way, wrong: Wrong) -> Finding:
    """The finding for a path that only unlikely inputs take, and what is wrong there."""
    says = (
        f"line {way.line} of {way.kernel} went one way in all calls but one on unlikely inputs, "
        f"where {wrong.findings[0].says}"
    )
    code = "correctness.wrong-where-rare"
    return structs.replace(
        wrong.findings[0], code=code, says=says, line=way.line, blame=Blame.MACHINE
    )


def crowded(found: Finding) -> Finding:
    """The finding for what is wrong only where an integer input is mostly one value."""
    says = f"where most of an integer input is one of its numbers, {found.says}"
    code = "correctness.wrong-where-rare"
    return structs.replace(found, code=code, says=says, blame=Blame.MACHINE)


_GROSS = 256.0
"""Bounds: of 64 spacings each, in fp32 (ours)."""


def in_domain(wrong: Wrong) -> bool:
    """Whether a wrong call counts that is made on numbers of another kind than the problem draws.

    It does not where the reference has no finite answer there, nor where only the spread of the
    outputs is missed: rows in order may have none.
    """
    found = wrong.findings[0]
    if found.code not in NUMERIC:
        return True
    answers = (found.evidence.get("gold"), found.evidence.get("native"))
    finite = all(isinstance(answer, float) for answer in answers)
    return finite and found.code != "correctness.low-variance-error"


def gross(wrong: Wrong) -> bool:
    """Whether an error is larger than what a book's algorithm makes of one number that lies far
    out, such as a variance of numbers less the first one: a spacing for each number of a row.
    """
    found = wrong.findings[0]
    ratio = found.evidence.get("ratio")
    if found.code != "correctness.error-above-bound" or not isinstance(ratio, float):
        return True
    return not 0 < ratio <= _GROSS


def special(wrong: Wrong) -> Finding:
    """The finding for a NaN or infinity in an input whose effect is not the reference's."""
    says = f"not held against it: {wrong.findings[0].says}"
    code = "correctness.special-values"
    return structs.replace(wrong.findings[0], code=code, says=says, blame=Blame.MACHINE)


def counts(path: str) -> Finding:
    """The finding for host code or a kernel that may know how often it was called."""
    says = (
        f"host code remembers something new after every call ({path}): what it does after more "
        "calls than were made here was not compared"
    )
    return Finding(code="correctness.counts-calls", says=says, blame=Blame.MACHINE)


def check_operators(operators: Sequence[Operator]) -> list[Finding]:
    """The finding for torch operators in host code that compute something."""
    return [_operator(op) for op in operators if not op.allowed]


def _operator(op: Operator) -> Finding:
    does, code = "runs", "torch-compute-at-run-time"
    todo = "the kernels have to compute, torch only allocates"
    if op.reads:
        does, code, todo = "reads values by", "reads-values", "the kernels have to read them"
    return Finding(
        code=f"correctness.{code}",
        says=f"host code {does} {op.name}: {todo}",
        line=op.line,
        evidence={"operator": op.name, "times": op.times},
    )
