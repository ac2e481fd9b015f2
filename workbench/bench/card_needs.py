"""Which cards lack evidence, and which kernels are worth recording to give it to them."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import cache

from msgspec import Struct, structs

from workbench.bench.card_firsts import firsts, firsts_of
from workbench.bench.card_states import State
from workbench.engine.devices import Place
from workbench.kernels.source import read_source
from workbench.problems.records import Problem
from workbench.search.retrieval import Place as Scope
from workbench.search.retrieval import outside
from workbench.skills.card import Skill
from workbench.skills.evidence import rows_that_count

_LOOKED = 4
"""Problems of a card that are recorded (ours): on two of them a condition may fail."""
Found = tuple[Problem, State]


class Need(Struct, frozen=True, kw_only=True):
    """A card that is to be tried, without what it requires of earlier steps."""

    skill: Skill
    kept: bool
    """Whether a row that counts speaks for it already."""
    tried: frozenset[str]
    """Problems of its rows that count."""
    done: frozenset[str]
    """Problems that it need not be tried on again."""
    most: int
    """Problems that it is to be tried on."""


def needs_of(
    skills: Iterable[Skill],
    states: Sequence[State],
    place: Place,
    *,
    only: Collection[str] = (),
    each: int,
    every: bool,
) -> list[Need]:
    """Cards with an edit that no kept row speaks for, or that were tried on fewer than `each`
    problems; all of `only` (all when empty) with `every`.

    On a GPU only measured rows count. A card that was tried often enough and never kept is asked
    again only where a state was made for it.
    """
    kinds = {"measured"} if place.index is not None else {"modeled", "measured"}
    made_for = {card for state in states for card in state.cards}
    made_for |= {first.card for first in firsts()}
    found = []
    for skill in skills:
        if skill.edit is None or (only and skill.card.id not in only):
            continue
        known = [row for row in rows_that_count(skill.card.evidence) if row.kind in kinds]
        tried = frozenset(row.problem for row in known if row.problem)
        kept = any(row.verdict == "accepted" for row in known)
        asked = every or (not kept and skill.card.id in made_for)
        if len(tried) >= each and (kept or place.index is not None) and not asked:
            continue
        # What was kept on a problem need not be tried there again.
        done = tried if kept and not every else frozenset[str]()
        most = each - len(done)
        found.append(
            Need(skill=_without_requirements(skill), kept=kept, tried=tried, done=done, most=most)
        )
    return found


def _without_requirements(skill: Skill) -> Skill:
    """A card without what it requires of earlier steps: a state has that, or no anchor."""
    scope = structs.replace(skill.card.scope, after=())
    return structs.replace(skill, card=structs.replace(skill.card, scope=scope, requires=()))


def worth_recording(needs: Sequence[Need], found: Sequence[Found], target: str) -> list[Found]:
    """The kernels on which these cards will be tried, by their text alone, in the given order.

    Those of the most promising trials; for each card those that were made for it, then one of each
    of a few problems: where it was not tried first, and of these where most cards have something to
    do, so that few are recorded.
    """
    fits = {need.skill.card.id: _places(need, found, target) for need in needs}
    asked = Counter(at for places in fits.values() for at in places)
    ahead = {(first.problem, first.state) for first in firsts_of(fits)}
    chosen = {at for at, (p, state) in enumerate(found) if (p.name, state.name) in ahead}
    for need in needs:
        card = need.skill.card.id

        def rank(at: int, need: Need = need) -> tuple[bool, bool, int, int]:
            problem, state = found[at]
            mine = need.skill.card.id in state.cards
            return not mine, problem.name in need.tried, -asked[at], at

        problems: set[str] = set()
        for at in sorted(fits[card], key=rank):
            problem, state = found[at]
            fresh = problem.name not in problems and len(problems) < _LOOKED
            if card in state.cards or fresh:
                problems.add(problem.name)
                chosen.add(at)
    return [found[at] for at in sorted(chosen)]


def _places(need: Need, found: Sequence[Found], target: str) -> list[int]:
    """Numbers of the kernels whose text has a place for the card, within its scope."""
    card = need.skill.card
    return [
        at
        for at, (problem, state) in enumerate(found)
        if problem.name not in need.done
        and not outside(card, Scope(family=problem.family, platform=target))
        and has_place(need.skill, state.source)
    ]


def has_place(skill: Skill, source: str) -> bool:
    """Whether the card's edit has something to do in some launched kernel of a text."""
    edit = skill.edit
    return edit is not None and any(not edit.refusal(source, one) for one in _launched(source))


@cache
def _launched(source: str) -> tuple[str, ...]:
    return tuple(read_source(source).launched)
