"""The order in which sides are timed, which outputs are checked, and when a side is warm. Pure."""

import itertools
import random
from collections.abc import Iterator, Sequence
from statistics import median

from msgspec import Struct, structs

from workbench.measure.pairs import PairRule

BLOCK = 12
"""Rounds in a block, of which one is bare (ours)."""
FIRST_BARE = 3
"""Bare rounds in the first block: the clocks need a median before the first look (ours)."""
CHECKED = 1 / 3
"""Share of the calls whose outputs are checked (gate protocol, section 9.2)."""
CLOSELY = 1 / 8
"""Share of the checked outputs that are compared with the answer in fp64, with inputs, state and
guards; the rest are compared with eager's output, which is cheap (ours)."""

_MEDIAN_OF = 5
_STEADY = 0.02
_LEAST_CALLS = 10
_LEAST_SECONDS = 0.2
_MOST_SECONDS = 3.0
"""When a side counts as warm: see `Warmth.warm` (gate protocol, section 9.3)."""

_PATIENCE_SECONDS = 30.0
"""How long one run's rounds may take at the cap (ours)."""
_FEWEST_PAIRS = 10
"""Lowest cap. With 8, all pairs on one side are just rare enough for an error of 0.5 %."""


class Round(Struct, frozen=True, kw_only=True):
    """One round: every side is called once on the same contents."""

    order: tuple[int, ...]
    """Indices of the sides, in the order of their calls."""
    bare: bool
    """Called on an idle GPU instead of behind a hold: compares the clocks and makes no pair."""
    checked: frozenset[int]
    """Sides whose outputs are checked after the round."""
    closely: frozenset[int]
    """The checked sides that are compared with the fp64 answer."""


def rounds(
    seed: int, sides: int, *, checkable: Sequence[int], swapped: bool = False
) -> Iterator[Round]:
    """An endless sequence of rounds, determined by the seed.

    The order alternates (A B, B A, A B, ...), so that drift cancels; `swapped` begins with the
    last side. Each checkable side is checked in a third of the rounds, and once closely in the
    first block.
    """
    rng = random.Random(seed)  # noqa: S311 -- keyed by the judge's secret seed
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
            # A bare round makes no pair, so it must not use up a turn of the order either.
            turned ^= place not in bare


class Warmth:
    """Decides when a side has reached a steady speed (gate protocol, section 9.3).

    The first call, which compiles and tunes, does not count.
    """

    def __init__(self) -> None:
        self._us: list[float] = []
        self._seconds = 0.0
        self._begun = False

    def feed(self, us: float, seconds: float) -> None:
        """Add a call: its time in microseconds, and the seconds of GPU work since the last call."""
        if self._begun:
            self._us.append(us)
            self._seconds += seconds
        self._begun = True

    @property
    def warm(self) -> bool:
        """Whether the last two medians of five calls agree within 2 %, or three seconds passed."""
        if self._seconds >= _MOST_SECONDS:
            return True
        if len(self._us) < _LEAST_CALLS or self._seconds < _LEAST_SECONDS:
            return False
        now = median(self._us[-_MEDIAN_OF:])
        before = median(self._us[-2 * _MEDIAN_OF : -_MEDIAN_OF])
        return abs(now - before) <= _STEADY * before


def affordable(rule: PairRule, round_seconds: float) -> PairRule:
    """The rule with a lower cap where the rounds would otherwise take too long.

    To be chosen before the first pair, so that the bounds hold for the lower cap too.
    """
    if round_seconds * rule.cap <= _PATIENCE_SECONDS:
        return rule
    cap = min(rule.cap, max(_FEWEST_PAIRS, int(_PATIENCE_SECONDS / round_seconds)))
    return structs.replace(rule, first=min(rule.first, cap), cap=cap)
