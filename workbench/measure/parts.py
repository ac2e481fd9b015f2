"""Which resource takes most of a kernel's time, according to the model."""

from collections.abc import Mapping, Sequence

from workbench.kernels.records import Launch, LaunchTrace
from workbench.kernels.target import Target
from workbench.measure.model import CannotModel, modeled_time
from workbench.measure.records import FLOOR, Time


def modeled_parts(
    time: Time | None,
    launches: Sequence[Launch],
    traces: Sequence[LaunchTrace],
    target: Target,
) -> Mapping[str, float]:
    """Parts of the modeled time in microseconds; empty where nothing was traced.

    A measured time has no parts of its own, so they are modeled beside it. The floor is not listed:
    DRAM's part is at least as long.
    """
    if time is not None and time.detail:
        return _without_floor(time.detail)
    if not launches or not traces:
        return {}
    try:
        return _without_floor(modeled_time(launches, traces, target).detail)
    except CannotModel:
        return {}


def _without_floor(detail: Mapping[str, float]) -> Mapping[str, float]:
    parts = dict(detail)
    least = parts.pop(FLOOR, 0.0)
    return {**parts, "dram": max(parts.get("dram", 0.0), least)}


def in_words(part: str) -> str:
    """The words for a key of a modeled time's `detail`."""
    return "compulsory bytes alone" if part == FLOOR else part


def largest_part(
    time: Time | None,
    launches: Sequence[Launch],
    traces: Sequence[LaunchTrace],
    target: Target,
) -> tuple[str | None, float | None]:
    """Name of the largest part and its share of all parts, 0 to 1; None twice when unknown."""
    parts = {
        name: us for name, us in modeled_parts(time, launches, traces, target).items() if us > 0
    }
    if not parts:
        return None, None
    largest = max(parts, key=lambda name: parts[name])
    return largest, parts[largest] / sum(parts.values())
