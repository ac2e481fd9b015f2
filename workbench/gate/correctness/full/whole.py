"""Running every program of a call, where a sample of them did not tell and it takes seconds."""

from collections.abc import Callable
from typing import TypedDict

from msgspec import structs

from workbench.gate.correctness.full.looks import FullLook
from workbench.gate.correctness.verdicts import NUMERIC, crowded
from workbench.gate.problem.records import ShapeReport
from workbench.gate.records import Blame, Finding
from workbench.kernels.requests import Traced, TraceRequest

Look = Callable[[TraceRequest], FullLook]
"""Runs a candidate's programs and compares what they store."""

_MOST_WORK = 24e6
"""Work of a whole call (ours): some 5 s of one core."""
_ACCESS, _BYTES_A_LANE, _FLOPS = 5000.0, 4.0, 100.0
"""What costs one unit of `TraceRequest.work` or several, as far as a trace shows."""


class Everything(TypedDict):
    """Fields of a `TraceRequest` that runs all programs."""

    sample: None
    work: None


RUN_ALL = Everything(sample=None, work=None)


def affordable(traced: Traced | Finding | None) -> int:
    """How many whole calls like the one that was traced take seconds together; 0 for none."""
    if not isinstance(traced, Traced) or traced.fault is not None:
        return 0
    work = sum(
        trace.programs * _ACCESS * (trace.loads + 1)
        + sum(one.loaded + one.stored for one in trace.traffic.values()) / _BYTES_A_LANE
        + sum(trace.dot_flops.values()) / _FLOPS
        for trace in traced.traces
    )
    return int(_MOST_WORK / max(work, 1.0))


def whole_look(first: FullLook, of: Look, asked: TraceRequest) -> FullLook | None:
    """A look at every program where a sample did not tell of every output or of every path, and
    that takes seconds.

    A sum of what all programs add cannot be told from a part of it. None where it is not worth it.
    """
    told = isinstance(first.traced, Traced) and first.traced.compared and _followed(first)
    guilty = any(finding.blame is Blame.CANDIDATE for finding in first.findings)
    if told or guilty or not affordable(first.traced):
        return None
    whole = of(asked)
    if not whole.evidence.get("elements"):
        return None
    if isinstance(first.traced, Traced) and isinstance(whole.traced, Traced):
        # Other versions are traced by a sample, too.
        traced = structs.replace(first.traced, compared=whole.traced.compared)
        return structs.replace(whole, traced=traced)
    return whole


def _followed(look: FullLook) -> bool:
    """Whether programs that ran stand for all of them, as far as anything shows."""
    return not look.evidence.get("blind") and look.evidence.get("stood_for") == 1.0


def whole_numbers(full: ShapeReport) -> bool:
    """Whether some inputs are integers."""
    return any(entry.dtype.lstrip("u").startswith("int") for entry in full.input_entries)


def crowded_look(look: FullLook, of: Look, asked: TraceRequest) -> FullLook:
    """The look, with what is wrong where most integers are the same: a count may end too early."""
    wrong = [finding for finding in of(asked).findings if finding.code in NUMERIC]
    return structs.replace(look, findings=(crowded(wrong[0]),)) if wrong else look
