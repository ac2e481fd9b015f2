"""Which recorded lineage has the longest path that a kernel can still follow. Pure.

After KLineage's retrieval: lineages of the same family, language and platform, over as
many inputs of the same dtype, rank and stride order; ranked by words of the problem, likeness of
shapes and measured gain; then walked from every step, leaving out what is there already, to the
first conflict or missing requirement. The gain of a way is that of its span as it was recorded,
never a product of its steps' gains.
"""

import re
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from workbench.kernels.records import Launch, TensorArgument
from workbench.skills.records import Card

_WORD = re.compile(r"[A-Za-z][a-z]+|[A-Z]+")


class Input(Struct, frozen=True, kw_only=True):
    """One tensor that a kernel is given."""

    dtype: str
    shape: tuple[int, ...]
    order: tuple[int, ...]
    """Dimensions from the smallest stride to the largest."""


class Place(Struct, frozen=True, kw_only=True):
    """What a kernel is made for, and which features it has already."""

    family: str
    language: str = "triton"
    platform: str
    """`sm90`."""
    inputs: tuple[Input, ...] = ()
    statement: str = ""
    """The problem's text; its words are compared."""
    prior: tuple[str, ...] = ()
    """Cards accepted on its line."""
    features: frozenset[str] = frozenset()
    """Features that those provide, and that the code has by itself."""


class Step(Struct, frozen=True, kw_only=True):
    """One accepted transition of a lineage."""

    card: str
    """Empty for a step without a card."""
    requires: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    before_us: float | None = None
    after_us: float | None = None
    """Times of one kind and one run; None where they were not both measured."""
    versus_seed: float | None = None
    """The seed's time over the one after it, measured in one run."""
    modeled: bool = False
    """Modeled times are the same in every run, so that those of several steps may be divided."""


class Recorded(Struct, frozen=True, kw_only=True):
    """The accepted line of a session."""

    name: str
    place: Place
    steps: tuple[Step, ...]
    """Steps from the seed on."""


class Way(Struct, frozen=True, kw_only=True):
    """The longest part of a lineage that can be followed from a kernel."""

    lineage: str
    first: int
    """Index of its first step in the lineage."""
    cards: tuple[str, ...]
    """Cards to take, in order."""
    present: tuple[str, ...]
    """Cards within it whose features the kernel already has."""
    stopped: str
    """Why it ends before the lineage does; empty at the lineage's end."""
    gain: float | None
    """Recorded time before its first step over that after its last, present steps included."""


def outside(card: Card, place: Place) -> str:
    """What a place does not meet of a card's scope or features; empty when it meets all."""
    scope = card.scope
    for name, names in (
        (place.family, scope.families),
        (place.language, scope.languages),
        (place.platform, scope.platforms),
    ):
        if "*" not in names and name not in names:
            return f"made for {', '.join(names)}"
    if set(scope.after) - set(place.prior):
        return f"comes after {', '.join(scope.after)}"
    if set(scope.not_after) & set(place.prior):
        return f"does not follow {', '.join(scope.not_after)}"
    if set(card.requires) - place.features:
        return f"requires {', '.join(card.requires)}"
    if set(card.conflicts) & place.features:
        return f"conflicts with {', '.join(card.conflicts)}"
    return ""


def unlike(recorded: Place, place: Place) -> str:
    """Why a lineage is not comparable with a place; empty when it is."""
    pairs = zip(recorded.inputs, place.inputs, strict=False)
    reasons = (
        (recorded.family != place.family, f"another family: {recorded.family}"),
        (recorded.language != place.language, f"another language: {recorded.language}"),
        (recorded.platform != place.platform, f"another platform: {recorded.platform}"),
        (len(recorded.inputs) != len(place.inputs), f"{len(recorded.inputs)} inputs"),
        (any(a.dtype != b.dtype for a, b in pairs), "other dtypes"),
        (_differs(recorded, place, lambda one: len(one.shape)), "other ranks"),
        (_differs(recorded, place, lambda one: one.order), "another order of strides"),
    )
    return next((says for holds, says in reasons if holds), "")


def _differs(one: Place, other: Place, what: Callable[[Input], object]) -> bool:
    return [what(i) for i in one.inputs] != [what(i) for i in other.inputs]


def likeness(recorded: Recorded, place: Place) -> tuple[float, float, float]:
    """Words shared over all words; mean ratio of shapes; gain of the whole line. Higher is more
    alike.
    """
    ours, theirs = _words(place.statement), _words(recorded.place.statement)
    words = len(ours & theirs) / len(ours | theirs) if ours | theirs else 0.0
    ratios = [
        min(a, b) / max(a, b)
        for one, other in zip(recorded.place.inputs, place.inputs, strict=False)
        for a, b in zip(one.shape, other.shape, strict=False)
        if max(a, b) > 0
    ]
    shapes = sum(ratios) / len(ratios) if ratios else 0.0
    return (
        round(words, 6),
        round(shapes, 6),
        round(_gain(recorded.steps, 0, len(recorded.steps) - 1) or 1.0, 6),
    )


def _words(text: str) -> frozenset[str]:
    return frozenset(word.lower() for word in _WORD.findall(text))


def longest_way(recorded: Recorded, place: Place) -> Way | None:
    """The longest way from any step of a lineage, the earliest of equals; None without one."""
    ways = [_way(recorded, first, place) for first in range(len(recorded.steps))]
    return max((w for w in ways if w.cards), key=lambda w: (len(w.cards), -w.first), default=None)


def _way(recorded: Recorded, first: int, place: Place) -> Way:
    features = set(place.features)
    cards: list[str] = []
    present: list[str] = []
    stopped, last = "", first - 1
    for number, step in enumerate(recorded.steps[first:], start=first):
        # A feature that an earlier step of the way provides may be needed again, elsewhere.
        if step.provides and set(step.provides) <= place.features:
            present.append(step.card)
            continue
        if not step.card:
            stopped = "a step that no card led to"
            break
        missing, clash = set(step.requires) - features, set(step.conflicts) & features
        if missing or clash:
            what = f"requires {_list(missing)}" if missing else f"conflicts with {_list(clash)}"
            stopped = f"{step.card} {what}"
            break
        features |= set(step.provides)
        cards.append(step.card)
        last = number
    return Way(
        lineage=recorded.name,
        first=first,
        cards=tuple(cards),
        present=tuple(present),
        stopped=stopped,
        gain=_gain(recorded.steps, first, last),
    )


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _gain(steps: Sequence[Step], first: int, last: int) -> float | None:
    """Gain of a span as a whole; None if its ends were not timed together."""
    span = steps[first : last + 1]
    if not span:
        return None
    if len(span) > 1 and not all(step.modeled for step in span):
        return span[-1].versus_seed if first == 0 else None
    before, after = span[0].before_us, span[-1].after_us
    return before / after if before and after else None


def retrieve(recorded: Iterable[Recorded], place: Place) -> tuple[Way, ...]:
    """Ways of every comparable lineage: the longest first, then the most alike."""
    found = []
    for one in recorded:
        way = None if unlike(one.place, place) else longest_way(one, place)
        if way is not None:
            found.append((-len(way.cards), tuple(-x for x in likeness(one, place)), one.name, way))
    return tuple(way for *_, way in sorted(found, key=lambda row: row[:3]))


def inputs_of(launches: Sequence[Launch]) -> tuple[Input, ...]:
    """The tensors of the first launch, in the order of its parameters."""
    if not launches:
        return ()
    tensors = [a for a in launches[0].arguments.values() if isinstance(a, TensorArgument)]
    return tuple(
        Input(
            dtype=one.dtype,
            shape=one.shape,
            order=_order(one.strides),
        )
        for one in tensors
    )


def _order(strides: tuple[int, ...]) -> tuple[int, ...]:
    """Of equal strides the later dimension counts as the smaller one."""
    return tuple(
        sorted(range(len(strides)), key=lambda dimension: (strides[dimension], -dimension))
    )
