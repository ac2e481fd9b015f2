"""Cards that pay only together: what one requires is put in with it, in one step.

A card that loses by itself is in a lineage for a later one, which says `requires` (`lineage.
leaping`). Tried alone it would be refused; so it is carried out with the one that makes it pay, and
the gate judges the two as one step.
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
    """A source to which everything was done that a card requires."""

    source: str
    first: tuple[str, ...]
    """Cards that did it, in order."""


def missing(skill: Skill, line: Line, library: Library) -> frozenset[str]:
    """Features that a card requires and that no accepted card has provided."""
    return frozenset(skill.card.requires) - line.features(library)


def prepared(skill: Skill, kernel: str, state: ProposerState, line: Line) -> Prepared | None:
    """What the card requires, put in by other cards of the library; None where they cannot."""
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


def freed(skill: Skill) -> Skill:
    """The card where what it requires is put in with it."""
    return structs.replace(skill, card=structs.replace(skill.card, requires=()))


def prepares(skill: Skill, state: ProposerState, line: Line) -> str:
    """The card that this one is only there for; empty where it may go alone.

    A card whose recorded effect is no gain prepares another that requires it. One that a person
    asked for goes alone, unless the other one was asked for too.
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
    """The values that need no facts: an expression stands for a number that is not known here."""
    return tuple(v for v in values if kind != "int" or not isinstance(v, str))


def _carried_out(skill: Skill, kernel: str, source: str) -> str:
    """What a card's first values make of a source; empty where they make nothing of it."""
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
