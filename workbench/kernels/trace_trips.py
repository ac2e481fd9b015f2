"""Corrects a sample's counts for uneven programs, by the trip counts of their first loops.

A program of a persistent grid processes several tiles, and some programs one more: which of them a
sample contains changes its counts by up to a tenth. The trip count is known before any load
completes, so it can be asked of every program, and the counts are scaled by it (a ratio estimate:
Cochran, Sampling Techniques, 3rd edition, chapter 6).
"""

from collections.abc import Callable, Sequence

FEW_PROGRAMS = 1024
"""Sample size from which the mean is close enough without a correction (ours)."""


def mean_trips(
    known: Sequence[int | None], total: int, ask: Callable[[int], int | None]
) -> float | None:
    """Mean trip count of the first loop over `total` programs; None where it is unknown.

    `known` are those of the first programs, `ask` gives any other's. Beyond the known ones a single
    step is searched for, as a round-robin distribution of tiles has it.
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
    """Factor on the counts of the programs that ran; 1 where nothing is known."""
    known = [trips for trips in ran if trips is not None]
    if mean is None or not known or len(known) < len(ran) or not sum(known):
        return 1.0
    return mean * len(known) / sum(known)
