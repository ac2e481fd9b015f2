"""Which candidates of a queue are worked on side by side: the best, by different techniques."""

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
    """What it differs from the incumbent by: a card's category, method or level."""
    place: int = 0
    """Place in the order of proposals; of two with equal scores the earlier goes first."""
    line: int | None = None
    """Number of the kernel that it was made from; None when that is the incumbent for all."""


def beam(waiting: Iterable[Waiting], spec: SearchSpec) -> tuple[Waiting, ...]:
    """At most `lines` of them, best first; the order in which they are given changes nothing.

    No technique has more than `per_technique` while another one waits: a beam that fills up with
    near copies of its best kernel is a beam of one (KernelAgent, PRs 139 and 140).
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


def _rank(one: Waiting) -> tuple[float, int, str, int, str]:
    return -one.score, one.place, one.technique, one.line or 0, one.sha256
