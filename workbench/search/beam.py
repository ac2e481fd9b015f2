"""Which candidates of a queue are evaluated in parallel: the best, of different techniques."""

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from workbench.search.ladder import SearchSpec


class Waiting(Struct, frozen=True, kw_only=True):
    """A candidate that may climb."""

    sha256: str
    score: float
    """`Standing.score`."""
    technique: str = ""
    """How it differs from the incumbent: a card's category, method or level."""
    place: int = 0
    """Position in the order of proposals; of two with equal scores the earlier goes first."""


def beam(waiting: Iterable[Waiting], spec: SearchSpec) -> tuple[Waiting, ...]:
    """At most `lines` candidates, best first, whatever order they are given in.

    No technique gets more than `per_technique` while another one waits: a beam full of near copies
    of its best kernel is a beam of one (KernelAgent, PRs 139 and 140).
    """
    width, most = int(spec.lines.value), int(spec.per_technique.value)
    ranked = sorted(waiting, key=_rank)
    seen: Counter[str] = Counter()
    first: list[Waiting] = []
    spare: list[Waiting] = []
    for one in ranked:
        (first if seen[one.technique] < most else spare).append(one)
        seen[one.technique] += 1
    return tuple([*first, *spare][:width])


def _rank(one: Waiting) -> tuple[float, int, str, str]:
    return -one.score, one.place, one.technique, one.sha256
