"""Facts that come from the session instead of the kernel: problem, time and history."""

from workbench.measure.parts import largest_part
from workbench.search.line import Line
from workbench.search.records import ProposerState


def session_facts(
    state: ProposerState, line: Line
) -> dict[str, "int | float | str | tuple[str, ...] | None"]:
    """The catalogue's `problem`, `profile` and `history` parts, by full name."""
    largest, share = largest_part(state.time, state.launches, state.traces, state.target)
    floor = _floor_us(state)
    microseconds = None if state.time is None else state.time.microseconds
    return {
        "problem.family": state.family or None,
        "problem.precision": state.precision or None,
        "problem.flops": state.flops,
        "problem.bytes": state.bytes,
        "profile.bottleneck": largest,
        "profile.bottleneck_share": share,
        "profile.microseconds": microseconds,
        "profile.efficiency": floor / microseconds if floor and microseconds else None,
        "history.steps": len(state.history),
        "history.tried": line.tried_cards,
        "history.accepted": line.cards,
        "history.failures": line.failures,
    }


def _floor_us(state: ProposerState) -> float | None:
    """Time of the compulsory traffic at the device's sustained bandwidth, microseconds.

    A floor from bytes alone: for arithmetic the pipe depends on the kernel's precision, which is
    the kernel's own choice.
    """
    if state.bytes is None or not state.target.dram_gbps:
        return None
    return state.bytes / state.target.dram_gbps / 1000
