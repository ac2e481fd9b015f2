"""Finds kernels from which a card was not learned and in which its edit has a place.

A ground is a correct kernel of a shipped problem: its plain seed, another plain form, its expert,
or its expert with one mechanism taken out, where a card for that mechanism should have a place.
The step is first evaluated on the CPU path; a ground on which it is refused there is left out.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from msgspec import Struct, structs

from workbench.engine.looking import Look, looking
from workbench.errors import WorkbenchError
from workbench.gate.records import Verdict
from workbench.kernels.source import normalized_sha256
from workbench.kernels.target import Target, target
from workbench.lineage.removals import removable
from workbench.lineage.sketch import needed, operations
from workbench.problems.load import load_problem, shipped_problems
from workbench.problems.records import Problem
from workbench.search.proposer import propose
from workbench.search.records import NoProposal, Proposal, ProposerState, Tried
from workbench.skills.card import Skill
from workbench.skills.library import Library
from workbench.skills.records import Carrier, Parameter, Plan

MOST = 2
"""Grounds that a card is tried on when nobody names any (ours)."""
_LOOKED = 4
"""Grounds of a card among which those are chosen (ours)."""
_WITHOUT = "expert-without-"


class Ground(Struct, frozen=True, kw_only=True):
    """A kernel that a card can be tried on."""

    problem: str
    form: str
    """`seed`, the name of another plain form, `expert`, or `expert-without-MECHANISM`."""
    source: str

    @property
    def name(self) -> str:
        """`gelu`, or `gelu/two_kernels`; `ground_of` reads it."""
        return self.problem if self.form == "seed" else f"{self.problem}/{self.form}"


def ground_of(name: str) -> Ground:
    """The ground of a name. Raises WorkbenchError for a problem or form that is not shipped."""
    problem, _, form = name.partition("/")
    every = {one.form: one for one in _forms(problem)}
    try:
        return every[form or "seed"]
    except KeyError:
        raise WorkbenchError(
            f"{problem} ships no kernel {form or 'seed'!r}",
            todo=f"one of {', '.join(every)}" if every else "name a problem that ships one",
        ) from None


@cache
def _forms(name: str) -> tuple[Ground, ...]:
    """Every kernel of a shipped problem that a card may be tried on, the plain ones first."""
    return tuple(_read(load_problem(name)))


def _read(problem: Problem) -> Iterator[Ground]:
    texts: dict[str, Path] = {}
    if problem.seed is not None:
        texts["seed"] = problem.seed
        forms = sorted((problem.path.parent / "states").glob("*.py"))
        texts |= {path.stem: path for path in forms}
    for form, path in texts.items():
        yield Ground(problem=problem.name, form=form, source=path.read_text(encoding="utf-8"))
    if problem.expert is None:
        return
    expert = problem.expert.read_text(encoding="utf-8")
    without: dict[str, str] = {}
    for inverse, _, found in removable(expert):
        without.setdefault(f"{_WITHOUT}{inverse.category}", found.source)
    for form, text in without.items():
        yield Ground(problem=problem.name, form=form, source=text)
    yield Ground(problem=problem.name, form="expert", source=expert)


def held_out_grounds(skill: Skill, providers: Sequence[Skill] = ()) -> tuple[Ground, ...]:
    """Kernels of problems that a card has no evidence from, and in which it has something to do.

    Those of the families that it was seen in come first, then one of each problem before another
    of any. Text alone is read.
    """
    tried = {row.problem for row in skill.card.evidence}
    found = []
    for name in shipped_problems():
        if name in tried:
            continue
        family = load_problem(name).family
        for place, ground in enumerate(_forms(name)):
            if _has_place(skill, ground, family, providers):
                found.append((family not in skill.card.scope.families, place, name, ground))
    found.sort(key=lambda row: row[:3])
    return tuple(ground for *_, ground in found)


def _has_place(skill: Skill, ground: Ground, family: str, providers: Sequence[Skill]) -> bool:
    """Whether a card can apply to a ground.

    Of a sketch only its first operations can be checked: the ground has to contain them all.
    """
    if skill.edit is not None:
        return step_of(skill, ground, family, providers) is not None
    wanted = needed(skill.card.carrier.sketch)
    return bool(wanted) and wanted.keys() <= operations(ground.source).keys()


def alone(skill: Skill, providers: Iterable[Skill] = ()) -> Library:
    """A library of one card, asked for, since drafts are not chosen otherwise.

    Of its scope only the platforms count: whether it holds in another family is the question. What
    it requires is put in by `providers`; without any of them it must do without.
    """
    needs = set(skill.card.requires)
    others = [_anywhere(one) for one in providers if needs & set(one.card.provides)]
    given = {feature for one in others for feature in one.card.provides}
    requires = skill.card.requires if needs <= given else ()
    freed = _anywhere(skill)
    freed = structs.replace(freed, card=structs.replace(freed.card, requires=requires))
    skills = {one.card.id: one for one in (*(others if requires else ()), freed)}
    return Library(skills, pinned=frozenset({skill.card.id}))


def _anywhere(skill: Skill) -> Skill:
    scope = structs.replace(skill.card.scope, families=("*",), after=(), not_after=())
    return structs.replace(skill, card=structs.replace(skill.card, scope=scope))


def narrowed(skill: Skill, ground: Ground, providers: Iterable[Skill] = ()) -> Skill:
    """The card without values that would go another way than in every recorded step: a trial of
    fewer stages is none of a card that was seen to need more. A card that has no other value left
    there has no edit either."""
    providers = tuple(providers)
    while (made := _proposed(skill, ground, "", providers)) is not None:
        wrong = _another_way(skill, made.plan)
        if not wrong:
            break
        name, value = wrong
        usual = {one.name: one.grid for one in skill.edit.parameters} if skill.edit else {}
        grid = dict(skill.card.carrier.grid)
        grid[name] = tuple(one for one in grid.get(name, usual.get(name, ())) if one != value)
        # What is worked out from facts is no value of the grid that could be left out.
        kept = grid[name] and grid != skill.card.carrier.grid
        carrier = structs.replace(skill.card.carrier, grid=grid) if kept else Carrier()
        skill = structs.replace(skill, card=structs.replace(skill.card, carrier=carrier))
    return skill


def _another_way(skill: Skill, plan: Plan) -> tuple[str, Parameter] | None:
    """The first number of a step that goes up where every recorded one went down, or the reverse,
    with its value."""
    for name, value in plan.parameters.items():
        seen = {
            _way(row.was.get(name), row.parameters.get(name))
            for row in skill.card.evidence
            if row.verdict == "accepted"
        } - {0}
        if seen and (way := _way(plan.was.get(name), value)) and way not in seen:
            return name, value
    return None


def _way(before: Parameter | None, after: Parameter | None) -> int:
    """1 for up, -1 for down, 0 where it is neither or not known."""
    if not isinstance(before, int | float) or not isinstance(after, int | float):
        return 0
    return (after > before) - (after < before)


def step_of(
    skill: Skill, ground: Ground, family: str, providers: Iterable[Skill] = ()
) -> Proposal | None:
    """What a card would do to a kernel, as far as its text tells; None where that is nothing."""
    providers = tuple(providers)
    return _proposed(narrowed(skill, ground, providers), ground, family, providers)


def _proposed(
    skill: Skill, ground: Ground, family: str, providers: Iterable[Skill]
) -> Proposal | None:
    platforms = [one for one in skill.card.scope.platforms if one != "*"]
    start = Tried(number=0, parent=None, sha256=normalized_sha256(ground.source), accepted=True)
    made = propose(
        ProposerState(
            source=ground.source,
            number=0,
            library=alone(skill, providers),
            target=target(platforms[0] if platforms else "sm90"),
            family=family,
            history=(start,),
        )
    )
    return None if isinstance(made, NoProposal) else made


class Outlook(Struct, frozen=True, kw_only=True):
    """What a card would do on a ground, by the CPU path's word."""

    card: str
    ground: Ground
    gain: float
    """Modeled time before over after; 1.0 where no model knows, 0.0 where nobody has looked."""


def outlooks(
    skills: Sequence[Skill],
    providers: Sequence[Skill],
    gpu: Target,
    jobs: int,
    until: float | None = None,
) -> list[Outlook]:
    """Grounds for cards for which nobody named any: at most `MOST` each, the best gain first.

    Every kernel is looked at once, problems side by side; what the CPU path refuses is left out.
    After `until`, by the monotonic clock, no more is looked at: such grounds come last.
    """
    wanted: dict[str, list[tuple[Skill, Ground, str]]] = {}
    unseen: list[Outlook] = []
    for skill in skills:
        if not _gains(skill):
            continue
        if skill.edit is None:
            # A model writes the step later, so that there is nothing to evaluate yet.
            places = held_out_grounds(skill, providers)[:MOST]
            unseen += [Outlook(card=skill.card.id, ground=one, gain=0.0) for one in places]
            continue
        for ground in held_out_grounds(skill, providers)[:_LOOKED]:
            made = step_of(skill, ground, load_problem(ground.problem).family, providers)
            if made is not None:
                wanted.setdefault(ground.problem, []).append((skill, ground, made.source))
    with ThreadPoolExecutor(max_workers=jobs) as side:
        asked = [side.submit(_looked, name, rows, gpu, until) for name, rows in wanted.items()]
        found = [one for part in asked for one in part.result()]
    found.sort(key=lambda one: -one.gain)
    kept: list[Outlook] = []
    for one in found:
        if sum(other.card == one.card for other in kept) < MOST:
            kept.append(one)
    return kept + unseen


def untried(skill: Skill, providers: Sequence[Skill] = ()) -> str:
    """Why a card finds no kernel to be tried on by itself; empty where it finds one."""
    if not _gains(skill):
        return "it claims no gain by itself, and no gate lets it pass alone"
    if not held_out_grounds(skill, providers):
        return "no shipped kernel that it was not learned from has a place for it"
    return ""


def _gains(skill: Skill) -> bool:
    """Whether a card claims a gain by itself.

    A step that only prepares another passes no gate that asks for a gain; it is tried together
    with that other step.
    """
    return all(e.direction == "down" for e in skill.card.effect if e.metric == "time")


def _looked(
    name: str, rows: Sequence[tuple[Skill, Ground, str]], gpu: Target, until: float | None
) -> list[Outlook]:
    """Outlooks of the rows of one problem whose two kernels both pass the CPU path."""
    found = []
    with looking(load_problem(name), gpu) as look:
        for skill, ground, made in rows:
            late = until is not None and time.monotonic() >= until
            gain = 0.0 if late else _gain(look, ground.source, made)
            if gain is not None:
                found.append(Outlook(card=skill.card.id, ground=ground, gain=gain))
    return found


def _gain(look: Look, before: str, after: str) -> float | None:
    one, other = look(before, timed=True), look(after, timed=True)
    if {one.verdict, other.verdict} != {Verdict.ACCEPTED}:
        return None
    if one.time is None or other.time is None:
        return 1.0
    return one.time.microseconds / other.time.microseconds
