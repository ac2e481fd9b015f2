"""Corrects a sample's counts for uneven programs, by the trip counts of their first loops.

A program of a resident grid takes several tiles, one after another, and some take one more: which
of them a sample meets decides a tenth of its counts. The number of trips is known before any load
is waited for, so it can be asked of every program, and the counts are scaled by it (a ratio
estimate: Cochran, Sampling Techniques, 3rd edition, chapter 6).
"""

from collections.abc import Callable, Sequence

FEW_PROGRAMS = 1024
"""Programs from which on a sample's mean is close enough without (ours)."""


def mean_trips(
    known: Sequence[int | None], total: int, ask: Callable[[int], int | None]
) -> float | None:
    """Mean trips of the first loop over `total` programs; None where that is not known.

    `known` are those of the first programs, `ask` gives any other's. Of what lies behind the known
    ones at most one step is looked for, as dealing tiles out in turn leaves it.
    """
    first = [trips for trips in known if trips is not None]
    if not first or len(first) < len(known) or total > FEW_PROGRAMS:
        return None
    if len(first) == total:
        return sum(first) / total
    last = ask(total - 1)
    if last is None:
        return None
    low, high = len(first) - 1, total - 1
    while last != first[-1] and high - low > 1:
        middle = (low + high) // 2
        if ask(middle) == first[-1]:
            low = middle
        else:
            high = middle
    return (sum(first) + first[-1] * (high - len(first)) + last * (total - high)) / total


def tilt(mean: float | None, ran: Sequence[int | None]) -> float:
    """What counts of the programs that ran are multiplied by; 1 where nothing is known."""
    known = [trips for trips in ran if trips is not None]
    if mean is None or not known or len(known) < len(ran) or not sum(known):
        return 1.0
    return mean * len(known) / sum(known)
