"""Which resource takes most of a kernel's time, according to the model."""

from collections.abc import Mapping, Sequence

from workbench.kernels.records import Launch, LaunchTrace
from workbench.kernels.target import Target
from workbench.measure.model import CannotModel, modeled_time
from workbench.measure.records import Time


def modeled_parts(
    time: Time | None,
    launches: Sequence[Launch],
    traces: Sequence[LaunchTrace],
    target: Target,
) -> Mapping[str, float]:
    """Parts of the modeled time in microseconds; empty where nothing was traced.

    A measured time has no parts of its own, so they are modeled beside it.
    """
    if time is not None and time.detail:
        return time.detail
    if not launches or not traces:
        return {}
    try:
        return modeled_time(launches, traces, target).detail
    except CannotModel:
        return {}


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
