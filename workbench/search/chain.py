"""Chains speedups: one found against an earlier base is restated against the present one."""

from collections.abc import Sequence
from math import prod

from workbench.search.rungs import RungResult


def combined_gain(gains: Sequence[RungResult], like: RungResult) -> RungResult | None:
    """The combined gain of several steps, as a result at the rung of `like`.

    None where a step has no ratio of that kind. Interval ends multiply: the product covers at least
    as often as each step's own error allows together (Bonferroni), and is wider than necessary.
    """
    if any(one.ratio is None or one.kind is not like.kind for one in gains):
        return None
    measured = like.low is not None or like.high is not None
    ratios = [one.ratio for one in gains if one.ratio is not None]
    lows = [r if one.low is None else one.low for one, r in zip(gains, ratios, strict=True)]
    highs = [r if one.high is None else one.high for one, r in zip(gains, ratios, strict=True)]
    return RungResult(
        rung=like.rung,
        passed=True,
        kind=like.kind,
        ratio=prod(ratios),
        low=prod(lows) if measured else None,
        high=prod(highs) if measured else None,
    )
