"""Chains speedups: one found against an earlier base is restated against the present one."""

from collections.abc import Sequence
from math import prod

from workbench.search.rungs import RungResult


def combined_gain(gains: Sequence[RungResult], like: RungResult) -> RungResult | None:
    """The combined gain of several steps, as a result at the rung of `like`.

    None where a step has no ratio of that kind. Interval ends multiply: the product covers at least
    as often as each step's own error allows together (Bonferroni), and is wider than necessary.
    """
    ratio = _product([one.ratio for one in gains])
    if ratio is None or any(one.kind is not like.kind for one in gains):
        return None
    return RungResult(
        rung=like.rung,
        passed=True,
        kind=like.kind,
        ratio=ratio,
        low=_product([one.low for one in gains]),
        high=_product([one.high for one in gains]),
    )


def _product(factors: Sequence[float | None]) -> float | None:
    """None where one of them is not known."""
    known = [factor for factor in factors if factor is not None]
    return prod(known) if len(known) == len(factors) else None
