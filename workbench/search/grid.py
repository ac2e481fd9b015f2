"""The order in which the values of a card's parameters are tried at one anchor."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from workbench.problems.arithmetic import is_number
from workbench.search.records import Tried
from workbench.skills.records import Parameter

Axes = Mapping[str, Sequence[Parameter]]
"""Values of each free parameter, the most promising first."""
Point = dict[str, Parameter]


def patience(axes: Axes) -> int:
    """Refused trials after which an anchor is left alone (ours).

    Two, and one more for each further axis that offers a choice.
    """
    choices = sum(len(values) > 1 for values in axes.values())
    return 2 + max(0, choices - 1)


def points(
    axes: Axes, current: Mapping[str, Parameter], trials: Sequence[Tried]
) -> Iterator[Point]:
    """Points still worth trying, best first.

    A value that helped is pushed further in the same direction. Otherwise the grid's own order is
    kept, single changes before several, the first axis before the others. Nothing is tried beyond a
    value that was worse.
    """
    tried = [_free(t, axes) for t in trials]
    now = {name: current[name] for name in axes if name in current}
    here = now if len(now) == len(axes) and all(now[n] in axes[n] for n in axes) else {}
    yielded: list[Point] = []
    for point in (*_pushed(axes, trials), *_in_order(axes, here)):
        known = point in tried or point in yielded or (bool(now) and point == now)
        if known or _beyond_worse(point, now, trials, axes):
            continue
        yielded.append(point)
        yield point


def _free(trial: Tried, axes: Axes) -> Point:
    return {name: trial.parameters[name] for name in axes if name in trial.parameters}


def _in_order(axes: Axes, here: Point) -> Iterator[Point]:
    """Every point, in the order of `points`; `here` is the present one, empty when off the grid."""
    names = list(axes)
    places = product(*(range(len(axes[name])) for name in names))

    def key(place: tuple[int, ...]) -> tuple[int, int, list[int]]:
        moved = sum(
            name in here and axes[name][i] != here[name]
            for name, i in zip(names, place, strict=True)
        )
        return moved, sum(place), [-i for i in place]

    for place in sorted(places, key=key):
        yield {name: axes[name][i] for name, i in zip(names, place, strict=True)}


def _pushed(axes: Axes, trials: Sequence[Tried]) -> Iterator[Point]:
    """The next value in the same direction, when the last trial helped by changing one number."""
    if not trials or not trials[-1].accepted:
        return
    last = trials[-1]
    point = _free(last, axes)
    moved = [n for n in point if n in last.was and last.was[n] != point[n]]
    if len(moved) != 1 or len(point) != len(axes):
        return
    name = moved[0]
    here, before = point[name], last.was[name]
    if not is_number(here) or not is_number(before):
        return
    up = here > before
    for value in axes[name]:
        if is_number(value) and (value > here if up else value < here):
            yield {**point, name: value}


def _beyond_worse(
    point: Point, now: Mapping[str, Parameter], trials: Sequence[Tried], axes: Axes
) -> bool:
    """Whether a point lies on the far side of a worse value, seen from the present one.

    Worse are values that failed, and values that an accepted step moved away from.
    """
    if len(axes) != 1 or not now:
        return False
    (name,) = axes
    here, wanted = now[name], point[name]
    if not is_number(here) or not is_number(wanted):
        return False
    worse = [t.was.get(name) if t.accepted else t.parameters.get(name) for t in trials]
    return any(
        wanted > value > here or wanted < value < here
        for value in worse
        if value is not None and is_number(value)
    )
