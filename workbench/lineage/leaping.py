"""Which steps of a chain pay only together: a step without a gain, and the step it enables.

A lineage's step is sound when its kernel is right and leads back to the expert; it need not gain by
itself. What it prepares comes after it. So the steps from it up to the first with which they gain
as a whole are one leap (ours; KLineage's cards say `requires` for it).
"""

from collections.abc import Sequence
from math import prod

from workbench.measure.records import Kind, Speed, Time

PAYS = 1.01
"""Speedup above which a gain counts, by the lower end of the interval where there is one: the
gate's threshold."""


def pays(forward: Speed | None) -> bool:
    """Whether a forward step gains by itself."""
    if forward is None:
        return False
    return (forward.ratio if forward.low is None else forward.low) > PAYS


def loses(forward: Speed | None) -> bool:
    """Whether it is slower by itself, by the upper end of the interval where there is one."""
    if forward is None:
        return False
    return (forward.ratio if forward.high is None else forward.high) < 1 / PAYS


def leap(ahead: Sequence[Speed | None]) -> int:
    """How many of the forward steps in `ahead`, counted from the first, pay only together.

    1 where the first pays by itself, or all of them together do not. Their gain is estimated as the
    product of the steps' ratios, which decides what belongs together and is never reported.
    """
    if not ahead or pays(ahead[0]):
        return 1
    ratios = [1.0 if one is None else one.ratio for one in ahead]
    for steps in range(2, len(ratios) + 1):
        if pays(ahead[steps - 1]) and prod(ratios[:steps]) > PAYS:
            return steps
    return 1


def turned(speed: Speed | None) -> Speed | None:
    """The inverse of a speed."""
    if speed is None or not speed.ratio:
        return None
    low = None if not speed.high else 1 / speed.high
    high = None if not speed.low else 1 / speed.low
    known = low is not None and high is not None
    return Speed(
        kind=speed.kind,
        ratio=1 / speed.ratio,
        low=low if known else None,
        high=high if known else None,
        confidence=speed.confidence if known else None,
        pairs=speed.pairs,
        gpu_seconds=speed.gpu_seconds,
    )


def modeled(before: Time | None, after: Time | None) -> Speed | None:
    """Ratio of two modeled times; measured times of different runs make none."""
    if before is None or after is None:
        return None
    if before.kind is not Kind.MODELED or after.kind is not Kind.MODELED:
        return None
    return Speed(kind=Kind.MODELED, ratio=before.microseconds / after.microseconds)
