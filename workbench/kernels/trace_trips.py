"""Corrects a sample's counts for uneven programs, by the trip counts of their first loops.

A program of a persistent grid processes several tiles, and some programs one more: which of them a
sample contains changes its counts by up to a tenth. Where loops end at a diagonal, as in causal
attention, programs differ by their place, and a sample's counts by a factor of two. The trip count
is known before any load completes, so it can be asked of every program, and the counts are scaled
by it (a ratio estimate: Cochran, Sampling Techniques, 3rd edition, chapter 6).
"""

from collections.abc import Callable, Sequence

FEW_PROGRAMS = 1024
"""Most programs among which tiles are dealt out in turn: a wave of a GPU (ours)."""

_SPREAD = 96
"""Programs that are asked where trips follow no such rule (ours): of trips that rise in a straight
line along any axis, their mean is within 8 % of that of all."""

_GOLDEN = (5**0.5 - 1) / 2


def mean_trips(
    known: Sequence[int | None], total: int, ask: Callable[[int], int | None]
) -> float | None:
    """Mean trip count of the first loop over `total` programs; None where it is unknown.

    `known` are those of the first programs, `ask` gives any other's. Beyond the known ones a single
    step is searched for, as a round-robin distribution of tiles has it; where the known ones rise,
    or fall by more than one, or there are too many programs for that, some of all are asked.
    """
    first = [trips for trips in known if trips is not None]
    if not first or len(first) < len(known):
        return None
    if len(first) == total:
        return sum(first) / total
    if total > FEW_PROGRAMS or first != sorted(first, reverse=True) or first[0] > first[-1] + 1:
        return _spread(total, ask, min(_SPREAD, len(first)))
    last = ask(total - 1)
    if last is None:
        return None
    if not first[0] - 1 <= last <= first[-1]:
        return _spread(total, ask, min(_SPREAD, len(first)))
    low, high = len(first) - 1, total - 1
    while last != first[-1] and high - low > 1:
        middle = (low + high) // 2
        if ask(middle) == first[-1]:
            low = middle
        else:
            high = middle
    return (sum(first) + first[-1] * (high - len(first)) + last * (total - high)) / total


def _spread(total: int, ask: Callable[[int], int | None], many: int) -> float | None:
    """Mean over so many programs, no more than were known already: at multiples of the golden
    ratio, which no period of a grid falls in with (Weyl, Ueber die Gleichverteilung von Zahlen
    mod. Eins, 1916)."""
    found = [ask(int((place + 0.5) * _GOLDEN % 1 * total)) for place in range(many)]
    trips = [one for one in found if one is not None]
    return sum(trips) / len(trips) if len(trips) == len(found) else None


def tilt(mean: float | None, ran: Sequence[int | None]) -> float:
    """Factor on the counts of the programs that ran; 1 where nothing is known."""
    known = [trips for trips in ran if trips is not None]
    if mean is None or not known or len(known) < len(ran) or not sum(known):
        return 1.0
    return mean * len(known) / sum(known)
