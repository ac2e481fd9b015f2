"""Where calibration shows that the model of speed ranks kernels as a GPU does. Pure.

The judgements are data (`model_trust.json`, written by `workbench bench model --judge`). A family
that was never calibrated is not trusted, and the model must not decide there.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

LEAST_RANK = 0.8
"""Least Spearman coefficient within a problem for the model to rank its variants (ours)."""
LEAST_VARIANTS = 6
"""Fewest variants from which a rank correlation means anything (ours)."""
TOLD_APART = 1.05
"""Times whose ratio exceeds this differ by more than a GPU varies from day to day (ours)."""
_DATA = Path(__file__).with_name("model_trust.json")


class Judgement(Struct, frozen=True, kw_only=True):
    """How well the model ranked the variants of one problem."""

    problem: str
    family: str
    target: str
    variants: int
    rank: float | None
    """Spearman's coefficient of modeled and measured times; None where it is not defined."""
    agreement: float | None
    """Share of the pairs with times further apart than `TOLD_APART` that the model orders alike;
    None without such pairs."""
    error: float
    """Median of max(modeled / measured, measured / modeled) - 1."""
    source: str = ""
    """GPU, versions and day of the measured times."""

    @property
    def trusted(self) -> bool:
        """Whether the model may rank the variants of this problem."""
        enough = self.variants >= LEAST_VARIANTS
        return enough and self.rank is not None and self.rank >= LEAST_RANK

    def says(self) -> str:
        """For reports: `rank correlation 0.82 over 11 variants`."""
        if self.rank is None or self.variants < LEAST_VARIANTS:
            return f"only {self.variants} variants were measured"
        return f"rank correlation {self.rank:.2f} over {self.variants} variants"


def spearman(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Spearman's rank correlation with tied ranks averaged; None where one side is constant.

    Spearman 1904, "The Proof and Measurement of Association between Two Things".
    """
    if len(one) < 2 or len(set(one)) < 2 or len(set(other)) < 2:
        return None
    return statistics.correlation(_ranks(one), _ranks(other))


def agreement(modeled: Sequence[float], measured: Sequence[float]) -> float | None:
    """Share of the pairs with measured times apart by `TOLD_APART` that the model orders alike."""
    alike: list[bool] = []
    for i, slow in enumerate(measured):
        for j, fast in enumerate(measured):
            if slow > TOLD_APART * fast:
                alike.append(modeled[i] > modeled[j])
    return statistics.fmean(alike) if alike else None


def why_not_trusted(family: str, target: str, known: Sequence[Judgement] | None = None) -> str:
    """Why modeled times must not rank kernels of this family on this target; empty when they may.

    A family is trusted when all its problems that were calibrated on enough variants are trusted.
    """
    judged = [
        one
        for one in (calibration() if known is None else known)
        if (one.family, one.target) == (family, target) and one.variants >= LEAST_VARIANTS
    ]
    if not judged:
        return f"it was never compared with measured {family or 'unnamed'} kernels on {target}"
    for one in judged:
        if not one.trusted:
            return f"on {one.problem}: {one.says()}"
    return ""


def gain_told(family: str, target: str, known: Sequence[Judgement] | None = None) -> float:
    """The modeled ratio above which a gain counts although the model is not trusted to rank.

    One plus the largest median error of the family's problems, on that target; of all problems
    there where the family was never compared, and of all targets where that one was not; infinite
    without any judgement. Of all pairs of one problem's kernels in `bench/h200.json` that are
    modeled 1.2x apart, 99 % or more in every normalization are gains on the H200; of those modeled
    1.01x apart, 90 % in softmax. A modeled loss has no such bound: a step of softmax that is
    modeled at 0.66x gained 1.17x (`sessions/offline-softmax.bundle`, v2).
    """
    every = calibration() if known is None else known
    here = [one for one in every if one.target == target] or list(every)
    judged = [one for one in here if one.family == family] or here
    return 1.0 + max((one.error for one in judged), default=math.inf)


@cache
def calibration() -> tuple[Judgement, ...]:
    """The shipped judgements."""
    return msgspec.json.decode(_DATA.read_bytes(), type=tuple[Judgement, ...])


def judged(
    names: Mapping[str, str], target: str, modeled: Sequence[float], measured: Sequence[float]
) -> Judgement:
    """Judge modeled against measured times (same unit, same order of variants).

    `names` holds `problem` and `family`, and maybe `source`. Raises StatisticsError without times.
    """
    errors = [max(m / t, t / m) - 1 for m, t in zip(modeled, measured, strict=True)]
    return Judgement(
        problem=names["problem"],
        family=names["family"],
        source=names.get("source", ""),
        target=target,
        variants=len(measured),
        rank=spearman(modeled, measured),
        agreement=agreement(modeled, measured),
        error=statistics.median(errors),
    )


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for place in order[start : end + 1]:
            ranks[place] = (start + end) / 2
        start = end + 1
    return ranks
