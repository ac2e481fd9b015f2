"""Variants of a shipped seed that a search would meet: techniques, then sizes of each."""

from collections.abc import Iterator
from itertools import zip_longest

from workbench.kernels.edits.base import Anchor, Edit, EditRefused, Parameter
from workbench.kernels.edits.registry import EDITS
from workbench.kernels.source import normalized_sha256, read_source

_TECHNIQUES = (
    "online-softmax",
    "row-on-chip",
    "loop-to-tile",
    "count-to-sort",
    "tile",
    "tile-programs",
    "dot-precision",
    "group-order",
    "split-reduction",
    "persistent",
    "rows-per-program",
)
"""Edits that change how much is done, or where; hints to caches and compiler are left out, since
what they change is mostly less than the noise."""
_SIZES = ("block-size", "num-warps", "num-stages")
_FAR = 4
"""A size is changed by this factor at most: tiles beyond do not compile within a minute."""
_TRIES = 6
"""Values of one parameter that are tried."""


def variants(source: str, count: int, *, grids: bool = False) -> dict[str, str]:
    """Up to `count` different sources by name, the seed first; deterministic.

    One technique and its sizes after another's in turn, so that few are enough to span them. With
    `grids` each technique's own other values take turns with the sizes, as a card offers them.
    """
    rows = [_row(values) for values in _bases(source, grids=grids)]
    found: dict[str, str] = {}
    seen: set[str] = set()
    for column in zip_longest(*rows):
        for name, text in filter(None, column):
            digest = normalized_sha256(text)
            if digest not in seen and len(found) < count:
                seen.add(digest)
                found[name] = text
    return found


_Made = list[tuple[str, str]]
"""Names and sources."""


def _bases(source: str, *, grids: bool) -> Iterator[_Made]:
    """The seed, and the seed with each technique that fits it: its default first, then the other
    values of its grid where they are asked for."""
    yield [("seed", source)]
    for name in _TECHNIQUES:
        found = list(_applied(EDITS[name], source))
        yield found if grids else found[:1]


def _row(values: _Made) -> _Made:
    """The first value of a base; then its other values, and the first in other sizes, in turn."""
    if not values:
        return []
    (name, source), *others = values
    sizes = [list(_applied(EDITS[size], source)) for size in _SIZES]
    sized = [
        (f"{name}; {words}", text)
        for column in zip_longest(*sizes)
        for words, text in filter(None, column)
    ]
    turns = zip_longest(others, sized)
    return [(name, source), *(one for turn in turns for one in filter(None, turn))]


def _applied(edit: Edit, source: str) -> Iterator[tuple[str, str]]:
    """What an edit makes of a source, by its name and values."""
    for kernel in read_source(source).launched:
        for anchor in edit.anchors(source, kernel):
            for point in _points(edit, anchor):
                try:
                    text = edit.apply(source, kernel, point).source
                except EditRefused:
                    continue
                values = ", ".join(f"{key}={value}" for key, value in point.items())
                yield f"{edit.id} {values}".strip(), text


def _points(edit: Edit, anchor: Anchor) -> Iterator[dict[str, Parameter]]:
    """Values of the parameters that an anchor leaves open: one at a time, else the default."""
    free = [p for p in edit.parameters if p.name not in anchor.parameters]
    if not free:
        yield dict(anchor.parameters)
        return
    fixed = {p.name: anchor.current.get(p.name, p.default) for p in free}
    for parameter in free:
        # An expression over facts stands for a number that only a card can work out.
        plain = [v for v in parameter.grid if parameter.kind != "int" or not isinstance(v, str)]
        plain = [v for v in plain if _near(v, fixed[parameter.name])]
        if edit.id in _SIZES:
            # Every second from the largest down, then the others: far apart first.
            plain = [*plain[::-2], *plain[-2::-2]]
        for value in plain[:_TRIES]:
            yield {**fixed, **anchor.parameters, parameter.name: value}


def _near(value: Parameter, now: Parameter) -> bool:
    """Whether a number is of the present one's size; words and switches always are."""
    if not isinstance(value, int | float) or not isinstance(now, int | float) or not now:
        return True
    return now / _FAR <= value <= now * _FAR
