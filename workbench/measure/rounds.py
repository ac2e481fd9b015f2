"""In which order sides take turns, which turns are looked at, and when a side is warm. Pure."""

import itertools
import random
from collections.abc import Iterator, Sequence
from statistics import median

from msgspec import Struct, structs

from workbench.measure.pairs import PairRule

BLOCK = 12
"""Rounds of which one is bare (ours)."""
FIRST_BARE = 3
"""Bare rounds of the first block: the clocks need a median before the first look (ours)."""
CHECKED = 1 / 3
"""Share of the calls whose outputs are looked at (gate protocol, section 9.2)."""
CLOSELY = 1 / 8
"""Of these, the share that is held against the answer in fp64, with inputs, state and guards; the
others are held against eager's own answer, which is cheap (ours)."""

_MEDIAN_OF = 5
_STEADY = 0.02
_LEAST_CALLS = 10
_LEAST_SECONDS = 0.2
_MOST_SECONDS = 3.0

_PATIENCE_SECONDS = 30.0
_FEWEST_PAIRS = 10
"""With 8, all pairs on one side are just rare enough for an error of 0.5 %."""


class Round(Struct, frozen=True, kw_only=True):
    """Every side takes one turn on the same contents."""

    order: tuple[int, ...]
    """Places of the sides."""
    bare: bool
    """Without holding the GPU: for the clocks, not for the pairs."""
    checked: frozenset[int]
    """Sides whose outputs are looked at when all have had their turn."""
    closely: frozenset[int]
    """Of these, the ones that are looked at with all means."""


def rounds(
    seed: int, sides: int, *, checkable: Sequence[int], swapped: bool = False
) -> Iterator[Round]:
    """Rounds without end, the same for the same seed.

    The order turns round each time (A B, B A, A B: neighbours stay neighbours and drift cancels);
    `swapped` begins with the last side. Each checkable side is checked in a third of the rounds,
    and surely once, closely, in the first block.
    """
    rng = random.Random(seed)  # noqa: S311  # keyed by the judge's secret seed
    forth = tuple(range(sides))
    turned = swapped
    for block in itertools.count():
        bare = rng.sample(range(BLOCK), FIRST_BARE if block == 0 else 1)
        sure = {side: rng.randrange(BLOCK) for side in checkable} if block == 0 else {}
        for place in range(BLOCK):
            surely = [side for side in checkable if sure.get(side) == place]
            drawn = [side for side in checkable if rng.random() < CHECKED]
            order = forth[::-1] if turned else forth
            yield Round(
                order=order,
                bare=place in bare,
                checked=frozenset((*surely, *drawn)),
                closely=frozenset((*surely, *(s for s in drawn if rng.random() < CLOSELY))),
            )
            # A bare round makes no pair, so it must not take a pair's order either.
            turned ^= place not in bare


class Warmth:
    """Whether a side has reached its pace (gate protocol, section 9.3).

    The first call, which compiles and tunes, does not count.
    """

    def __init__(self) -> None:
        self._us: list[float] = []
        self._seconds = 0.0
        self._begun = False

    def feed(self, us: float, seconds: float) -> None:
        """One call: its time, and the seconds for which the GPU was kept at work since the last."""
        if self._begun:
            self._us.append(us)
            self._seconds += seconds
        self._begun = True

    @property
    def warm(self) -> bool:
        """Two medians of five agree within 2 %, or it has had three seconds."""
        if self._seconds >= _MOST_SECONDS:
            return True
        if len(self._us) < _LEAST_CALLS or self._seconds < _LEAST_SECONDS:
            return False
        now = median(self._us[-_MEDIAN_OF:])
        before = median(self._us[-2 * _MEDIAN_OF : -_MEDIAN_OF])
        return abs(now - before) <= _STEADY * before


def affordable(rule: PairRule, round_seconds: float) -> PairRule:
    """The rule with fewer pairs where rounds take so long that the cap would take minutes.

    Decided before the first pair counts, so the looks' bounds hold for the lower cap too.
    """
    if round_seconds * rule.cap <= _PATIENCE_SECONDS:
        return rule
    cap = min(rule.cap, max(_FEWEST_PAIRS, int(_PATIENCE_SECONDS / round_seconds)))
    return structs.replace(rule, first=min(rule.first, cap), cap=cap)
