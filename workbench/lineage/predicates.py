"""Conditions that recorded uses support: true where a mechanism helped, false where it did not.

KLineage lets a model write preconditions; ours are found: each is a comparison of one fact with a
value that was seen, and each rules out at least one recorded failure (the method is ours).
"""

from collections.abc import Iterator, Sequence
from operator import gt, lt
from typing import Literal

from msgspec import Struct

from workbench.kernels.facts_catalogue import CATALOGUE
from workbench.lineage.instances import Instance

Category = Literal["data types", "layout", "storage", "pipeline", "hardware"]

_CATEGORIES: dict[str, Category] = {
    "arg.dtypes": "data types",
    "arg.dot_dtype": "data types",
    "arg.output_dtype": "data types",
    "arg.element_bytes": "data types",
    "code.dot_precision": "data types",
    "problem.precision": "data types",
}
_BY_SOURCE: dict[str, Category] = {
    "arg": "layout",
    "static": "storage",
    "device": "hardware",
    "launch": "hardware",
}
_ORDER = ("code", "arg", "launch", "loop", "static", "trace", "problem", "device")
"""Facts that a person can read off the code come first; facts of one session come last."""
_NEVER = frozenset({"anchor.value", "code.block_parameters"})
"""Facts about the choice itself, or names that no other kernel shares."""


class Predicate(Struct, frozen=True, kw_only=True):
    """One comparison, with what it rests on."""

    fact: str
    when: str
    """The predicate in the language of conditions."""
    says: str
    excludes: tuple[int, ...]
    """Indices of the failures that it rules out."""
    category: Category


def conditions(
    helped: Sequence[Instance], failed: Sequence[Instance]
) -> tuple[list[Predicate], list[int]]:
    """The fewest predicates that rule out most failures, and the failures that none rules out.

    Every predicate holds in every instance that helped. Greedy: the one that rules out most comes
    first, ties go to the fact that is nearer to the code, then to its name.
    """
    left = set(range(len(failed)))
    found: list[Predicate] = []
    ahead = sorted(_candidates(helped, failed), key=_plain)
    while left and ahead:
        best = max(ahead, key=lambda p: len(left.intersection(p.excludes)))
        gained = left.intersection(best.excludes)
        if not gained:
            break
        found.append(best)
        left -= gained
    return found, sorted(left)


def _plain(predicate: Predicate) -> tuple[int, str, str]:
    prefix = predicate.fact.partition(".")[0]
    place = _ORDER.index(prefix) if prefix in _ORDER else len(_ORDER)
    return place, predicate.fact, predicate.when


def _candidates(helped: Sequence[Instance], failed: Sequence[Instance]) -> Iterator[Predicate]:
    if not helped:
        return
    for name, spec in CATALOGUE.items():
        if name in _NEVER or spec.source in {"history", "profile"}:
            continue
        good = [one.before[name].value for one in helped]
        bad = [one.before[name].value for one in failed]
        if any(value is None for value in good):
            continue
        if spec.type == "number":
            yield from _numeric(name, spec.says, good, bad)
        elif spec.type in {"flag", "text"} and len(set(good)) == 1:
            yield from _equal(name, spec.says, good[0], bad)


def _numeric(
    name: str, says: str, good: Sequence[object], bad: Sequence[object]
) -> Iterator[Predicate]:
    seen = [value for value in good if isinstance(value, int | float)]
    for operator, bound, outside in ((">=", min(seen), lt), ("<=", max(seen), gt)):
        excluded = [
            place
            for place, value in enumerate(bad)
            if isinstance(value, int | float) and outside(value, bound)
        ]
        if excluded:
            yield _predicate(name, f"{name} {operator} {bound!r}", says, excluded)


def _equal(name: str, says: str, value: object, bad: Sequence[object]) -> Iterator[Predicate]:
    excluded = [place for place, other in enumerate(bad) if other is not None and other != value]
    if not excluded:
        return
    when = f'{name} == "{value}"'
    if isinstance(value, bool):
        when = name if value else f"not {name}"
    yield _predicate(name, when, says, excluded)


def _predicate(name: str, when: str, says: str, excluded: Sequence[int]) -> Predicate:
    prefix = name.partition(".")[0]
    return Predicate(
        fact=name,
        when=when,
        says=says,
        excludes=tuple(excluded),
        category=_CATEGORIES.get(name, _BY_SOURCE.get(prefix, "pipeline")),
    )
