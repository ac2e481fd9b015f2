"""From naive to expert in one leap: carries out all retrieved cards, then asks for one verdict.

A trial that gates every step pays for the GPU each time. This one checks each step on the CPU path
alone (policy and compile), and asks for one verdict that compares the last kernel with the expert.
KLineage's agents work in the same way, from the cards of a whole lineage: the longest path that one
has from there (`search.retrieval`). Modeled times only choose between the values of one card, where
no recorded step is close.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice, product
from math import inf

from msgspec import Struct, structs

from workbench.engine.looking import Look
from workbench.gate.records import GateReport, Verdict
from workbench.kernels.edits.base import Anchor, Edit, EditRefused
from workbench.kernels.source import normalized_sha256
from workbench.kernels.target import Target
from workbench.search.line import line_of
from workbench.search.proposer import consider
from workbench.search.ranking import Choice
from workbench.search.records import ProposerState, Tried
from workbench.search.together import without_requirements
from workbench.skills.card import Skill
from workbench.skills.library import Library
from workbench.skills.records import Parameter

_VALUES = 3
"""Most values of one card that are compared by their modeled times (ours)."""
_SHAKEN = 15
"""How far cards may move in later trials, in percent of the whole path (ours): lineages of one
mechanism differ by about as much."""


class Ground(Struct, frozen=True, kw_only=True):
    """What a leap starts from: cards, a look on the CPU path, and the problem."""

    library: Library
    look: Look
    target: Target
    problem: str
    family: str
    precision: str
    way: tuple[str, ...] = ()
    """Cards of the longest path that a recorded lineage has from here, in order; a card may occur
    more than once. When empty, all cards of the library in the plain order of techniques."""
    ordered: bool = True
    """False for a random order."""


class Leap(Struct, frozen=True, kw_only=True):
    """The result of a leap."""

    source: str
    """The last kernel."""
    taken: tuple[str, ...]
    """Cards that were carried out, in order, with their kernels."""
    tried: int
    """Number of edits that were made, including those that were not kept."""
    refused: tuple[str, ...]
    """Cards whose results the CPU path refused, with its code."""
    idle: tuple[str, ...]
    """Cards of the path that were not carried out: no place, or a condition that does not hold."""


def leap(
    ground: Ground,
    naive: str,
    number: int,
    most: int,
    goes_on: Callable[[Leap], bool] = lambda _: True,
) -> Leap:
    """Carry out the cards on a naive kernel with at most `most` edits in trial `number`.

    The first trial takes the cards in their lineage's order, every other one in a slightly
    different order. A card that cannot be applied yet waits for later ones. `goes_on` is asked
    after every step, with the leap so far.
    """
    at, away = Leap(source=naive, taken=(), tried=0, refused=(), idle=()), set[tuple[str, str]]()
    waiting = ordered(ground, number)
    while waiting and at.tried < most:
        step = _step(ground, at.source, waiting, away)
        if step is None:
            break
        card, kernel, made = step
        waiting.remove(card)
        if not ground.way:
            # Without a path it is unknown how often: once in every kernel that has a place for it.
            away.add((card, kernel))
            waiting.append(card)
        at = _carried(ground, at, f"{card} on {kernel}", made)
        if not goes_on(at):
            break
    return structs.replace(at, idle=tuple(waiting) if ground.way else ())


def _carried(ground: Ground, at: Leap, what: str, made: Sequence[str]) -> Leap:
    """The leap after the best of the sources that one card makes, if any of them is right."""
    at = structs.replace(at, tried=at.tried + len(made))
    reports = _looks(ground.look, made)
    right = [s for s, r in zip(made, reports, strict=True) if r.verdict is Verdict.ACCEPTED]
    if not right:
        why = f"{what} ({reports[0].code})"
        return structs.replace(at, refused=(*at.refused, why))
    return structs.replace(at, source=_fastest(right, ground.look), taken=(*at.taken, what))


def _fastest(right: Sequence[str], look: Look) -> str:
    """The source with the least modeled time; the first if there is only one, or no time."""
    if len(right) == 1:
        return right[0]
    reports = _looks(look, right, timed=True)
    times = [r.time.microseconds if r.time else inf for r in reports]
    return min(zip(times, right, strict=True), key=lambda one: one[0])[1]


def _looks(look: Look, sources: Sequence[str], *, timed: bool = False) -> list[GateReport]:
    """What the CPU path says of several kernels, which are looked at side by side."""
    with ThreadPoolExecutor(max_workers=len(sources)) as side:
        return list(side.map(partial(look, timed=timed), sources))


def ordered(ground: Ground, number: int) -> list[str]:
    """The cards of a trial in the order in which it takes them.

    Cards that provide a feature come before those that require it.
    """
    draw = random.Random(number)  # noqa: S311 -- an order of cards, no secret
    skills = ground.library.skills
    if not ground.ordered:
        return draw.sample(sorted(skills), len(skills))
    places = {i: float(skill.card.order) for i, skill in skills.items()}
    cards = sorted(places, key=lambda i: (places[i], i))
    steps = [(float(places[i]), i) for i in cards]
    if ground.way:
        steps = [(100 * at / len(ground.way), card) for at, card in enumerate(ground.way)]
    if number > 1:
        steps = [(at + draw.uniform(-_SHAKEN, _SHAKEN), card) for at, card in steps]
    left = [card for _, card in sorted(steps)]
    return _provided_first(left, ground.library)


def _provided_first(cards: list[str], library: Library) -> list[str]:
    """The same cards, each after those that provide what it requires."""
    left, found = list(cards), list[str]()
    while left:
        ready = next((c for c in left if not _owed(c, left, library)), left[0])
        left.remove(ready)
        found.append(ready)
    return found


def _owed(card: str, left: Sequence[str], library: Library) -> bool:
    needs = set(library.skills[card].card.requires)
    return any(needs & set(library.skills[c].card.provides) for c in left if c != card)


def _step(
    ground: Ground, source: str, waiting: Sequence[str], away: set[tuple[str, str]]
) -> tuple[str, str, list[str]] | None:
    """The first card that can be applied, its kernel, and the sources that its values give."""
    fitting = _choices(ground, source)
    for card in dict.fromkeys(waiting):
        for choice in fitting.get(card, ()):
            if (card, choice.kernel) in away:
                continue
            made = _made(ground, source, ground.library.skills[card], choice)
            if made:
                return card, choice.kernel, made
    return None


def _choices(ground: Ground, source: str) -> dict[str, list[Choice]]:
    """The kernels where each card fits; those that its evidence names come first."""
    report = ground.look(source)
    start = Tried(number=0, parent=None, sha256=normalized_sha256(source), accepted=True)
    # `ordered` has put what a card requires before it, so requirements are ignored here.
    skills = {i: without_requirements(skill) for i, skill in ground.library.skills.items()}
    state = ProposerState(
        source=source,
        number=0,
        library=Library(skills, pinned=frozenset(skills)),
        target=ground.target,
        launches=report.launches,
        traces=report.traces,
        time=report.time,
        family=ground.family,
        precision=ground.precision,
        history=(start,),
    )
    found: dict[str, list[Choice]] = {}
    for one in consider(state, line_of((start,), 0)):
        for ranked in one.ranked:
            found.setdefault(ranked.choice.skill.card.id, []).append(ranked.choice)
    return {card: _known_first(ground, card, choices) for card, choices in found.items()}


def _known_first(ground: Ground, card: str, choices: list[Choice]) -> list[Choice]:
    """The choices; kernels that the card's evidence with this problem names come first."""
    rows = ground.library.skills[card].card.evidence
    seen = {row.kernel for row in rows if row.problem == ground.problem}
    return sorted(choices, key=lambda choice: choice.kernel not in seen)


def _made(ground: Ground, source: str, skill: Skill, choice: Choice) -> list[str]:
    """The different sources that a card's values give, at the first place where any applies."""
    grid = skill.card.carrier.grid
    before = normalized_sha256(source)
    for anchor in choice.edit.anchors(source, choice.kernel):
        if any(n in grid and value not in grid[n] for n, value in anchor.parameters.items()):
            continue
        made: dict[str, str] = {}
        for point in _points(ground, skill, choice.edit, anchor):
            try:
                applied = choice.edit.apply(source, choice.kernel, point).source
            except EditRefused:
                continue
            if (sha := normalized_sha256(applied)) != before:
                made[sha] = applied
        if made:
            return list(made.values())
    return []


def _points(
    ground: Ground, skill: Skill, edit: Edit, anchor: Anchor
) -> Iterator[dict[str, Parameter]]:
    """Values to try at a place: those of the closest recorded steps, else the card's first ones.

    A card from several lineages has the values of them all. Values seen with this problem, or else
    with its family, are better than those that a model of the GPU would choose.
    """
    card = skill.card
    grid = {
        one.name: card.carrier.grid.get(one.name, one.grid)
        for one in edit.parameters
        if one.name not in anchor.parameters and (one.grid or one.name in card.carrier.grid)
    }
    rows = [
        row
        for row in card.evidence
        if row.verdict == "accepted" and grid.keys() <= row.parameters.keys()
        if _at(anchor, row.parameters)
    ]
    here = [row for row in rows if row.problem == ground.problem]
    near = here or [row for row in rows if row.family == ground.family]
    if near:
        yield from ({**anchor.parameters, **row.parameters} for row in near)
        return
    for values in islice(product(*grid.values()), _VALUES):
        yield {**anchor.parameters, **dict(zip(grid, values, strict=True))}


def _at(anchor: Anchor, parameters: Mapping[str, Parameter]) -> bool:
    """Whether recorded parameters fit a place: none of them names another place."""
    return all(parameters.get(n, value) == value for n, value in anchor.parameters.items())
