"""Whether the smoke rung saves more than it costs, by the costs of the candidates so far. Pure.

The sequential rule stops a slow candidate at its first look, so smoke can only save the rest of the
bench rung: workers, other shapes, the looks after the first. It never pays where a slow candidate
costs as much at smoke as at bench, which is so where bench times before it compares.
"""

from collections.abc import Sequence
from statistics import median
from typing import Protocol

from msgspec import Struct

from workbench.search.ladder import LadderFile
from workbench.search.prices import Costed, learned

SMOKE, BENCH = "smoke", "bench"
_FEWEST = 3
"""Candidates at bench before anything is predicted (ours)."""


class Timed(Costed, Protocol):
    """The cost of a rung, and the interval of the speedup that it found."""

    @property
    def high(self) -> float | None:
        """Upper end of the ratio to the incumbent; None where nothing was timed."""


class Worth(Struct, frozen=True, kw_only=True):
    """Whether a rung is used for the next candidate, and why."""

    pays: bool
    reason: str
    """One sentence without a full stop."""


def worth(history: Sequence[Timed], file: LadderFile) -> Worth:
    """Whether smoke pays for the next candidate.

    It costs its price for every candidate. It saves the bench cost of those that bench found slower
    than smoke's bound, at best all of them: so this errs in smoke's favour. Prices are learned as
    everywhere (`prices.learned`). Raises KeyError for a ladder without smoke.
    """
    spec = file.rung[SMOKE]
    if spec.use != "pays":
        word = "asks for it" if spec.use == "always" else "leaves it out"
        return Worth(pays=spec.use == "always", reason=f"the ladder {word} (use = {spec.use})")
    if spec.pairs_first and file.rung[BENCH].pairs_first:
        return Worth(pays=False, reason="not asked: bench begins with the very same pairs")
    seen = [one for one in history if one.rung == BENCH][-int(file.search.price_memory.value) :]
    if len(seen) < _FEWEST:
        reason = f"not asked: {len(seen)} candidates came to bench, too few to say what it spares"
        return Worth(pays=False, reason=reason)
    slow = [one.gpu_seconds for one in seen if one.high is not None and _slow(one.high, file)]
    takes = learned(history, file).of(SMOKE).gpu_seconds
    spares = len(slow) / len(seen) * median(slow) if slow else 0.0
    says = (
        f"it takes {takes:.1f} GPU-s of each and spares {spares:.1f}"
        f" ({len(slow)} of {len(seen)} were slow at bench)"
    )
    pays = spares > takes
    return Worth(pays=pays, reason=says if pays else f"not asked: {says}")


def _slow(high: float, file: LadderFile) -> bool:
    return high < file.rung[SMOKE].prune_below.value
