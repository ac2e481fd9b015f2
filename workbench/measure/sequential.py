"""How many pairs must lie beyond a bound at each look, so that repeated looks add no error.

A group-sequential sign test. At a look at n pairs the lower bound of the median is the order
statistic X(r), r from 0, and the upper bound X(n - 1 - r). With m the true median, X(r) > m means
that at least n - r of n fair coins fell on one side; the r of all looks together are such that this
ever happens with probability at most `error`. So the intervals of all looks together contain the
median (repeated confidence intervals: Jennison and Turnbull 1989, J. R. Statist. Soc. B 51(3)),
whatever rule stops the looking. The only assumption about the noise is that the signs of different
pairs about the median are independent.

The error is spent over the looks by the Pocock-like function of Lan and DeMets (1983, Biometrika
70(3)): error * ln(1 + (e - 1) t) at the share t of the cap. The probability of crossing a bound is
computed exactly, by following the coins' random walk step by step.
"""

import math
from functools import cache

_GROWTH = 1.25
"""Each look has a quarter more pairs than the one before (ours)."""


@cache
def looks(first: int, cap: int) -> tuple[int, ...]:
    """Number of pairs at each look; even, except for the cap, so that both orders balance."""
    found = []
    n = min(first, cap)
    while n < cap:
        found.append(n)
        n = max(n + 2, 2 * round(n * _GROWTH / 2))
    return (*found, cap)


def spent(share: float, error: float) -> float:
    """Error that may be spent by the time a `share` of the cap's pairs has been taken."""
    return error * math.log1p((math.e - 1) * min(share, 1.0))


@cache
def rank_at(pairs: int, *, first: int, cap: int, error: float) -> int | None:
    """Index, counted from 0 at either end, of the order statistic that bounds the median.

    None where even all values on one side would not be rare enough. For a number of pairs between
    two looks, the answer is that of an additional look after the scheduled ones before it.
    """
    before = [look for look in looks(first, cap) if look < pairs]
    return _ranks((*before, pairs), cap, error)[-1]


@cache
def _ranks(schedule: tuple[int, ...], cap: int, error: float) -> tuple[int | None, ...]:
    """The rank at every look of a schedule.

    `alive[k]` is the probability that k coins so far fell the other way and that no look has
    crossed its bound.
    """
    alive = [1.0]
    crossed = 0.0
    ranks: list[int | None] = []
    for n in schedule:
        while len(alive) <= n:
            alive = [0.5 * (a + b) for a, b in zip([0.0, *alive], [*alive, 0.0], strict=True)]
        left = spent(n / cap, error) - crossed
        rank, lost = -1, 0.0
        while rank + 1 <= n // 2 - 1 and lost + alive[rank + 1] <= left:
            rank += 1
            lost += alive[rank]
            alive[rank] = 0.0
        crossed += lost
        # Walks that crossed at an earlier look are gone from `alive`, so ranks never decrease.
        ranks.append(rank if rank >= 0 else None)
    return tuple(ranks)
