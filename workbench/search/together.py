"""Cards that pay only together: what one requires is applied with it, in one step.

A card that is slower by itself is in a lineage for a later one, which says `requires`
(`lineage.leaping`). Alone it would be refused; so it is applied together with the card that makes
it pay, and the gate judges the two as one step.
"""

from collections.abc import Sequence
from itertools import product

from msgspec import Struct, structs

from workbench.kernels.edits.base import EditRefused
from workbench.kernels.source import normalized_sha256
from workbench.search.line import Line
from workbench.search.records import ProposerState
from workbench.search.retrieval import Place, outside
from workbench.skills.card import Skill
from workbench.skills.library import Library
from workbench.skills.records import Parameter


class Prepared(Struct, frozen=True):
    """A source to which everything that a card requires has been applied."""

    source: str
    first: tuple[str, ...]
    """Cards that were applied, in order."""


def missing(skill: Skill, line: Line, library: Library) -> frozenset[str]:
    """Features that a card requires and that no accepted card has provided."""
    return frozenset(skill.card.requires) - line.features(library)


def prepared(skill: Skill, kernel: str, state: ProposerState, line: Line) -> Prepared | None:
    """The source with what the card requires, applied by other cards; None where that fails."""
    left = set(missing(skill, line, state.library))
    source, first = state.source, list[str]()
    for one in sorted(state.library.skills.values(), key=lambda s: (s.card.order, s.card.id)):
        provides = left & set(one.card.provides)
        if not provides or one.card.id in state.library.disabled or _elsewhere(one, state):
            continue
        made = _carried_out(one, kernel, source)
        if made:
            source = made
            first.append(one.card.id)
            left -= provides
    return Prepared(source, tuple(first)) if first and not left else None


def without_requirements(skill: Skill) -> Skill:
    """The card without the requirements that are applied together with it."""
    return structs.replace(skill, card=structs.replace(skill.card, requires=()))


def prepares(skill: Skill, state: ProposerState, line: Line) -> str:
    """The card that this one only prepares; empty where it may be applied alone.

    A card whose recorded effect is not a gain prepares another one that requires it. A card that a
    person asked for is applied alone, unless the other one was asked for too.
    """
    if all(e.metric != "time" or e.direction == "down" for e in skill.card.effect):
        return ""
    library, provides = state.library, set(skill.card.provides)
    for one in library.skills.values():
        wanted = provides & missing(one, line, library)
        asked = one.card.id in library.pinned or skill.card.id not in library.pinned
        if wanted and asked and one.card.id not in library.disabled and not _elsewhere(one, state):
            return one.card.id
    return ""


def _elsewhere(skill: Skill, state: ProposerState) -> bool:
    free = structs.replace(skill.card, requires=(), conflicts=())
    scope = structs.replace(free.scope, after=(), not_after=())
    place = Place(family=state.family, platform=state.target.name)
    return bool(outside(structs.replace(free, scope=scope), place))


def _plain(kind: str, values: Sequence[Parameter]) -> tuple[Parameter, ...]:
    """Parameter values that need no facts: a placeholder for an expression over facts."""
    return tuple(v for v in values if kind != "int" or not isinstance(v, str))


def _carried_out(skill: Skill, kernel: str, source: str) -> str:
    """The source after a card's first values; empty where they do not apply."""
    edit, grid = skill.edit, skill.card.carrier.grid
    if edit is None:
        return ""
    for anchor in edit.anchors(source, kernel):
        if any(n in grid and value not in grid[n] for n, value in anchor.parameters.items()):
            continue
        axes = {
            one.name: _plain(one.kind, grid.get(one.name, one.grid))
            or _plain(one.kind, (one.default,))
            for one in edit.parameters
            if one.name not in anchor.parameters and (one.grid or one.name in grid)
        }
        for values in product(*axes.values()):
            point = {**anchor.parameters, **dict(zip(axes, values, strict=True))}
            try:
                made = edit.apply(source, kernel, point).source
            except EditRefused:
                continue
            if normalized_sha256(made) != normalized_sha256(source):
                return made
    return ""
