"""What the CPU path says of a card's chances: which are worth a trial, and why others are not."""

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct, structs

from workbench.engine.chances import Chance, Chances, Finder, chance_of, without
from workbench.engine.looking import Look, looking
from workbench.gate.records import GateReport, Verdict
from workbench.kernels.target import Target
from workbench.lineage.leaping import PAYS
from workbench.problems.load import load_problem
from workbench.skills.card import Skill
from workbench.skills.records import Carrier, Plan

MOST = 2
"""Grounds that a card is tried on when nobody names any (ours)."""
_LOOKED = 4
"""Grounds of a card among which those are chosen (ours)."""
_NAMED = 2
"""Grounds that a reason names, of those that share it."""


class Outlook(Struct, frozen=True, kw_only=True):
    """A chance that the CPU path has not refused."""

    card: str
    """The card that is tried: another than the chance's where it only prepares that one."""
    chance: Chance
    gain: float
    """Modeled time before over after; 1.0 where no model knows, 0.0 where nobody has looked."""


class Found(Struct, frozen=True, kw_only=True):
    """Where cards are tried, and of the cards that are tried nowhere why not."""

    outlooks: tuple[Outlook, ...]
    """Of each card as many as were asked for, the best gain first."""
    reasons: dict[str, tuple[str, ...]]
    """By card: why it is not tried on each ground that it was looked for on."""


def outlooks(
    skills: Sequence[Skill],
    providers: Sequence[Skill],
    gpu: Target,
    jobs: int,
    until: float | None = None,
    *,
    elsewhere: bool = False,
    most: int = MOST,
) -> Found:
    """Grounds for cards for which nobody named any, at most so many of each; `elsewhere`: trials
    run on a GPU, where what this path leaves unproven is asked again.

    A card that claims no gain by itself is tried alone where the model sees one, and else with the
    cards that it prepares: their step is its own too. Every kernel is looked at once, problems side
    by side. After `until`, by the monotonic clock, no more is looked at: such grounds come last.
    """
    finder = Finder(providers)
    every = {one.card.id: one for one in (*providers, *skills)}
    asked = {one.card.id for one in skills}
    wanted = asked | {
        other.card.id for one in skills if prepares(one) for other in _after(one, every.values())
    }
    chances = {card: finder.chances(every[card]) for card in sorted(wanted)}
    eye = _Eye(providers=tuple(providers), gpu=gpu, until=until, elsewhere=elsewhere)
    seen = _looks(every, chances, eye, jobs)
    kept: list[Outlook] = []
    reasons: dict[str, tuple[str, ...]] = {}
    for card in (one.card.id for one in skills):
        mine = _best(card, every, chances, seen)[:most]
        kept += mine
        if not mine:
            reasons[card] = tuple(_why(every[card], chances[card], seen))
    kept.sort(key=lambda one: -one.gain)
    return Found(outlooks=tuple(kept), reasons=reasons)


def prepares(skill: Skill) -> bool:
    """Whether a card claims no gain by itself: no gate that asks for one lets it pass alone."""
    return any(e.metric == "time" and e.direction != "down" for e in skill.card.effect)


def _after(skill: Skill, others: Iterable[Skill]) -> list[Skill]:
    """The cards that require what this one provides."""
    provides = set(skill.card.provides)
    return [one for one in others if provides & set(one.card.requires)]


class _Seen(Struct, frozen=True, kw_only=True):
    """What the CPU path said of a chance."""

    chance: Chance
    """With the first value of the card that it does not refuse."""
    gain: float | None
    """None where it refuses one of the two kernels, or the card's conditions do not hold there."""
    why: str = ""


_Looks = dict[tuple[str, str], _Seen]
"""By card and ground."""


class _Eye(Struct, frozen=True, kw_only=True):
    """How chances are looked at."""

    providers: tuple[Skill, ...]
    gpu: Target
    until: float | None
    elsewhere: bool

    @property
    def late(self) -> bool:
        return self.until is not None and time.monotonic() >= self.until

    def refusal(self, report: GateReport) -> str:
        """Why a kernel is not tried; empty where it may be."""
        fine = {Verdict.ACCEPTED, *([Verdict.UNPROVEN] if self.elsewhere else [])}
        return "" if report.verdict in fine else f"{report.code}: {report.says}"


def _looks(every: dict[str, Skill], chances: dict[str, Chances], eye: _Eye, jobs: int) -> _Looks:
    rows: dict[str, list[tuple[Skill, Chance]]] = {}
    for card, found in chances.items():
        for one in found.found[:_LOOKED]:
            rows.setdefault(one.ground.problem, []).append((every[card], one))
    with ThreadPoolExecutor(max_workers=jobs) as side:
        running = [side.submit(_looked, name, here, eye) for name, here in rows.items()]
        return {key: said for one in running for key, said in one.result().items()}


def _looked(name: str, rows: Sequence[tuple[Skill, Chance]], eye: _Eye) -> _Looks:
    problem = load_problem(name)
    found: _Looks = {}
    with looking(problem, eye.gpu) as look:
        for skill, chance in rows:
            if eye.late or chance.step is None:
                # A model writes a sketch's step later, so that there is nothing to look at yet.
                said = _Seen(chance=chance, gain=0.0)
            else:
                said = _gain(look, skill, chance, problem.family, eye)
            found[skill.card.id, chance.ground.name] = said
    return found


def _gain(look: Look, skill: Skill, chance: Chance, family: str, eye: _Eye) -> _Seen:
    """The gain of the card's first value that the CPU path does not refuse."""
    ground = chance.ground
    before = look(ground.source)
    if refused := eye.refusal(before):
        return _Seen(chance=chance, gain=None, why=f"the kernel itself is refused: {refused}")
    why = ""
    while skill.edit is not None:
        again = chance_of(skill, ground, family, eye.providers, before)
        if isinstance(again, str) or again.step is None:
            return _Seen(chance=chance, gain=None, why=why or str(again))
        after = again.step.source
        refused = eye.refusal(look(after)) or eye.refusal(look(after, timed=True))
        if not refused:
            return _Seen(chance=again, gain=_ratio(look, ground.source, after))
        values = ", ".join(f"{name} {value}" for name, value in again.step.plan.parameters.items())
        told = f"the CPU path refuses the step{f' with {values}' if values else ''}: {refused}"
        why = why or told
        skill = _without(again.skill, again.step.plan)
    return _Seen(chance=chance, gain=None, why=why)


def _without(skill: Skill, plan: Plan) -> Skill:
    """The card without the value that a plan took, in the first parameter that has others."""
    grid = skill.card.carrier.grid
    for name, value in plan.parameters.items():
        if len(grid.get(name, ())) > 1:
            return without(skill, name, value)
    return structs.replace(skill, card=structs.replace(skill.card, carrier=Carrier()))


def _ratio(look: Look, before: str, after: str) -> float:
    """Modeled time before over after; 1.0 where no model knows."""
    one, other = look(before, timed=True), look(after, timed=True)
    if one.time is None or other.time is None:
        return 1.0
    return one.time.microseconds / other.time.microseconds


def _best(
    card: str, every: dict[str, Skill], chances: dict[str, Chances], seen: _Looks
) -> list[Outlook]:
    """Where a card is tried: alone, or where it gains nothing so, with one that it prepares."""
    skill = every[card]
    least = PAYS if prepares(skill) else 0.0
    mine = _of(card, card, chances, seen, least)
    if mine or not prepares(skill):
        return mine
    for other in _after(skill, every.values()):
        mine += [
            one
            for one in _of(card, other.card.id, chances, seen, 0.0)
            if one.chance.step and card in one.chance.step.plan.first
        ]
    return mine


def _of(
    card: str, carried: str, chances: dict[str, Chances], seen: _Looks, least: float
) -> list[Outlook]:
    found = []
    for one in chances[carried].found[:_LOOKED]:
        said = seen[carried, one.ground.name]
        if said.gain is not None and (said.gain >= least or said.chance.step is None):
            found.append(Outlook(card=card, chance=said.chance, gain=said.gain))
    found.sort(key=lambda one: -one.gain)
    return found


def _why(skill: Skill, chances: Chances, seen: _Looks) -> list[str]:
    """Why a card is tried nowhere: each reason with the grounds that share it."""
    reasons: dict[str, list[str]] = {}
    for one in chances.found[:_LOOKED]:
        said = seen[skill.card.id, one.ground.name]
        why = said.why or _gainless(said.gain)
        reasons.setdefault(why, []).append(one.ground.name)
    for passed in chances.passed:
        reasons.setdefault(passed.why, []).append(passed.ground)
    learned = sorted({row.problem for row in skill.card.evidence})
    return [
        f"it was learned from {', '.join(learned)}, where a trial would prove nothing",
        *(f"{_places(grounds)}: {why}" for why, grounds in reasons.items()),
    ]


def _gainless(gain: float | None) -> str:
    """Why a card that claims no gain is not tried alone, and nothing that it prepares is."""
    if not gain:
        return "there was no time to look at it"
    return f"it claims no gain by itself, and {gain:.2f}x is modeled, which no gate lets pass alone"


def _places(grounds: Sequence[str]) -> str:
    shown = ", ".join(grounds[:_NAMED])
    more = len(grounds) - _NAMED
    return f"{shown} and {more} more" if more > 0 else shown
