"""When a search has nothing left to gain: it has stagnated, or is near the limit. Pure."""

from collections.abc import Sequence
from math import prod

from workbench.search.ladder import SearchSpec


def round_gain(*, accepted: bool, speed: float | None) -> float:
    """By which factor a round made the best kernel faster; 1 where it did not.

    `speed` is the round's own against the kernel that it was to beat; None where it has none.
    """
    return speed if accepted and speed is not None and speed > 1 else 1.0


def plateau_reached(gains: Sequence[float], spec: SearchSpec) -> str:
    """Why the search has stagnated; empty when it has not, or rounds are too few.

    `gains` are the `round_gain` of each round. The rule is KernelAgent's.
    """
    rounds, least = int(spec.plateau_rounds.value), spec.plateau_gain.value
    last = gains[-rounds:] if rounds else ()
    if len(last) < rounds or not rounds or prod(last) >= least:
        return ""
    return f"{rounds} rounds in a row made the best less than {100 * (least - 1):.2g} % faster"


def near_limit(share: float | None, spec: SearchSpec) -> str:
    """Why a kernel is as fast as it needs to be; empty when it is not, or the limit is unknown.

    `share` is `Limit.share` of a time of the same kind: 1 is all that the device can do.
    """
    if share is None or share < spec.near_limit.value:
        return ""
    least = 100 * spec.near_limit.value
    return f"the best reaches {100 * share:.3g} % of the limit, at least {least:.3g} %"
