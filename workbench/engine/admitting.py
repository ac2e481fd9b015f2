"""Tries a card alone: what it was learned from must come back, and it must help where it was not.

After KLineage's roundtrip admission: in a lineage, the predecessor and the card alone
must give a kernel that passes the gate, is no slower than 0.99 of the original step and has the
mechanism; held out, on a problem that the card has no evidence from, the card's step must pass the
gate against its baseline and show the effect it claims. Only the second admits a card.
"""

import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from workbench.engine.chances import Chance, alone, chance_of, ground_named
from workbench.engine.choosing import Choice, keep
from workbench.engine.create import RunRequest, check_models, create_session
from workbench.engine.devices import choose_place
from workbench.engine.grounds import Ground
from workbench.engine.holding import FLOOR
from workbench.engine.outlooks import MOST, Found, Outlook, outlooks, prepares
from workbench.engine.roundtrips import roundtrips
from workbench.engine.serve import serve_session
from workbench.engine.sketching import present
from workbench.engine.trials import Tell, Trial, Where, nothing
from workbench.engine.workplace import SessionWorkplace
from workbench.errors import WorkbenchError
from workbench.kernels.target import target
from workbench.lineage.instances import Instance, steps_of
from workbench.problems.load import load_problem
from workbench.session.reader import SessionReader
from workbench.session.records import Budget, Mode
from workbench.session.store import SessionStore
from workbench.skills.card import Skill
from workbench.skills.library import Library
from workbench.skills.records import Admission, Effect

_LOOKING = 0.4
"""Share of the time in which grounds are looked for; ours."""


class Ask(Struct, frozen=True, kw_only=True):
    """Which cards are tried, and where."""

    skills: tuple[Skill, ...]
    problems: tuple[str, ...]
    """Held out: names of grounds (`engine.grounds`), for one card alone where `CARD@` is before;
    `auto` stands for those that are found, for cards that are not named."""
    lineages: tuple[Path, ...]
    jobs: int
    """Trials side by side; only timings take turns on a GPU."""
    seconds: float | None
    """Seconds after which no trial starts."""
    where: Where
    most: int = MOST
    """Grounds of each card that `auto` finds."""


class Untried(Struct, frozen=True, kw_only=True):
    """A card for which no trial was found, or one of whose trials did not begin."""

    skill: Skill
    reasons: tuple[str, ...]
    """On each ground that it was looked for on, or why a trial did not begin."""


def admissions(ask: Ask, tell: Tell) -> Iterator[tuple[Skill, Trial] | Untried]:
    """Every trial with its card, as each ends, so that a killed run keeps it; and what found none.

    Raises WorkbenchError when a problem, lineage or the device cannot be used.
    """
    if any(skill.edit is None for skill in ask.skills):
        check_models(Budget(usd=ask.where.usd))
    until = None if ask.seconds is None else time.monotonic() + ask.seconds
    where = ask.where
    named = [_named(name, ask) for name in ask.problems if name != "auto"]
    found = _found(ask, {one.card for one in named})
    tasks = [
        _Task((skill,), one.name, partial(_all_roundtrips, skill, one, tell, where.usd))
        for skill in ask.skills
        for one in ask.lineages
    ]
    tasks += [
        _Task((skill,), one.ground.name, partial(_held_out_with, skill, one.ground, ask, tell))
        for one in named
        for skill in ask.skills
        if one.card in {"", skill.card.id}
    ]
    tasks += [_found_task(group, ask, tell) for group in _by_step(found.outlooks)]
    side = ThreadPoolExecutor(max_workers=ask.jobs)
    try:
        running = [side.submit(_in_time, until, work) for work in tasks]
        for one in as_completed(running):
            yield from one.result()
    finally:
        # After a fault, or Ctrl-C, no trial begins that nobody will hear of.
        side.shutdown(cancel_futures=True)
    skills = {skill.card.id: skill for skill in ask.skills}
    for card, reasons in found.reasons.items():
        yield Untried(skill=skills[card], reasons=reasons)


class _Task(NamedTuple):
    skills: tuple[Skill, ...]
    place: str
    work: Callable[[], list[tuple[Skill, Trial]]]


class _Named(NamedTuple):
    card: str
    """Empty for all cards."""
    ground: Ground


def _named(name: str, ask: Ask) -> _Named:
    """What a person names. Raises WorkbenchError for a card that is not asked about, and for what
    is no ground."""
    card, _, place = name.rpartition("@")
    if card and card not in {one.card.id for one in ask.skills}:
        known = ", ".join(one.card.id for one in ask.skills)
        raise WorkbenchError(f"{card} is none of the cards to try", where=name, todo=known)
    return _Named(card, ground_named(place, ask.where.providers))


def _found(ask: Ask, named: Collection[str]) -> Found:
    """Where cards are tried that nobody named a ground for, the best look first."""
    skills = [one for one in ask.skills if one.card.id not in named]
    if "auto" not in ask.problems or not skills:
        return Found(outlooks=(), reasons={})
    place = choose_place(ask.where.device, ask.where.target)
    gpu, elsewhere = target(place.target), place.index is not None
    until = None if ask.seconds is None else time.monotonic() + ask.seconds * _LOOKING
    providers = ask.where.providers
    return outlooks(skills, providers, gpu, ask.jobs, until, elsewhere=elsewhere, most=ask.most)


def _by_step(found: Sequence[Outlook]) -> list[list[Outlook]]:
    """Outlooks with the same step, which one trial answers for all their cards."""
    groups: dict[tuple[str, str], list[Outlook]] = {}
    for one in found:
        step = one.chance.skill.card.id, one.chance.ground.name
        groups.setdefault(step, []).append(one)
    return list(groups.values())


def _in_time(until: float | None, task: _Task) -> list[tuple[Skill, Trial] | Untried]:
    if until is None or time.monotonic() < until:
        return list(task.work())
    why = f"{task.place}: the seconds were over before its trial began"
    return [Untried(skill=one, reasons=(why,)) for one in task.skills]


def _found_task(group: Sequence[Outlook], ask: Ask, tell: Tell) -> _Task:
    skills = {skill.card.id: skill for skill in ask.skills}
    cards = tuple(skills[one.card] for one in group)
    return _Task(cards, group[0].chance.ground.name, partial(_all_found, group, ask, tell))


def _all_roundtrips(
    skill: Skill, lineage: Path, tell: Tell, usd: float | None
) -> list[tuple[Skill, Trial]]:
    return [(skill, trial) for trial in roundtrips(skill, lineage, tell, usd)]


def _all_found(found: Sequence[Outlook], ask: Ask, tell: Tell) -> list[tuple[Skill, Trial]]:
    """One trial of a step, for the card that it is of and for those that it needs first."""
    skills = {skill.card.id: skill for skill in ask.skills}
    cards = [skills[one.card] for one in found]
    return _tried(cards, found[0].chance.skill, found[0].chance.ground, ask.where, tell)


def _held_out_with(skill: Skill, ground: Ground, ask: Ask, tell: Tell) -> list[tuple[Skill, Trial]]:
    """The trial of a card where a person named the ground, and of those cards that its step needs
    first and that claim no gain by themselves."""
    needs = set(skill.card.requires)
    first = [one for one in ask.skills if prepares(one) and needs & set(one.card.provides)]
    return _carried_out([skill, *first], skill, ground, ask.where, tell)


def held_out(skill: Skill, ground: Ground, where: Where, tell: Tell, together: str = "") -> Trial:
    """Run one step of the card from a kernel that it was not learned from, in a session that is
    kept; cards that provide what it requires are carried out with it. A sketch is carried out by a
    model. `together` names a card that requires this one, and whose step is run instead.

    Raises WorkbenchError when the problem or the device cannot be used, or there is no such card.
    """
    by = (
        Library({one.card.id: one for one in where.providers}).skill(together) if together else None
    )
    ((_, trial),) = _carried_out([skill], by or skill, ground, where, tell)
    return trial


def _carried_out(
    cards: Sequence[Skill], carried: Skill, ground: Ground, where: Where, tell: Tell
) -> list[tuple[Skill, Trial]]:
    """A trial of each of these cards by one step of `carried`, whose chance is looked for first."""
    if carried.edit is not None:
        family = load_problem(ground.problem).family
        chance = chance_of(carried, ground, family, where.providers)
        if not isinstance(chance, Chance):
            return _nothing(cards[:1], ground, where, "", chance)
        carried = chance.skill
    return _tried(cards, carried, ground, where, tell)


def _nothing(
    cards: Sequence[Skill], ground: Ground, where: Where, session: str, why: str
) -> list[tuple[Skill, Trial]]:
    place = f"{ground.name} on {where.device}"
    return [
        (one, nothing(one, place, session, held_out=_unseen(one, ground), why=why)) for one in cards
    ]


def _unseen(skill: Skill, ground: Ground) -> bool:
    """Whether a card has no evidence from a ground's problem."""
    return ground.problem not in {row.problem for row in skill.card.evidence}


def _tried(
    cards: Sequence[Skill], carried: Skill, ground: Ground, where: Where, tell: Tell
) -> list[tuple[Skill, Trial]]:
    """One step of `carried` as a trial of each of these: the same card, or one that it prepares.

    A step that could not be judged is no trial of anything, and one that was made without a card
    is none of that card.
    """
    with tempfile.TemporaryDirectory(prefix="workbench-admit-") as scratch:
        kernel = Path(scratch) / "kernel.py"
        kernel.write_text(ground.source, encoding="utf-8")
        path = _session(carried, ground, kernel, where)
    library = alone(carried, where.providers)
    ended = serve_session(
        path,
        listen=tell,
        open_workplace=lambda store, settings, seed, emit: SessionWorkplace(
            store, settings, seed, emit, library=library
        ),
    )
    for step in steps_of(SessionReader(path)):
        if step.unproven:
            return _nothing(cards, ground, where, path.name, step.says)
        part = {carried.card.id, *step.first}
        mine = [one for one in cards if one.card.id in part or len(cards) == 1]
        others = [one for one in cards if one not in mine]
        why = f"the step of {carried.card.id} was made without it"
        return [
            *((one, _judged(one, carried, step, ground)) for one in mine),
            *_nothing(others, ground, where, path.name, why),
        ]
    return _nothing(cards, ground, where, path.name, ended.says)


def _session(skill: Skill, ground: Ground, kernel: Path, where: Where) -> Path:
    """The trial's session, which holds the kernel, and the choice of a card that no edit makes."""
    path = create_session(
        RunRequest(
            problem=ground.problem,
            kernel=kernel,
            mode=Mode.AUTO,
            device=where.device,
            target=where.target,
            budget=Budget(steps=1, usd=where.usd),
            proposer="skills" if skill.edit else "llm",
            name="",
            stem=f"admit-{skill.card.id}-{ground.problem}",
            sessions=where.sessions,
        )
    )
    if skill.edit is None:
        keep(SessionStore.open(path).state, Choice(skill=skill.card.id))
    return path


def _judged(skill: Skill, carried: Skill, step: Instance, ground: Ground) -> Trial:
    together = "" if carried.card.id == skill.card.id else carried.card.id
    if together:
        # What the two did cannot be told apart: it pays with the other, which is what it is for.
        missed = [] if skill.card.id in step.first else [f"a step of {skill.card.id}"]
    else:
        missed = [_effect_words(e) for e in skill.card.effect if not shows(e, step)]
        if not present(skill, step):
            missed.append("what the sketch puts in")
    says = step.says if not missed else f"{step.says}; not seen: {', '.join(missed)}"
    return Trial(
        admission=Admission(
            target=f"{ground.name} on {step.device}",
            held_out=_unseen(skill, ground),
            kind="measured" if step.measured else "modeled",
            accepted=step.accepted,
            effect_observed=step.accepted and not missed,
            session=step.session,
            commit=step.commit,
            together=together,
        ),
        applied=True,
        says=f"as a part of {together}: {says}" if together else says,
    )


def shows(effect: Effect, step: Instance) -> bool:
    """Whether a step moved what an effect names, in its direction.

    How far is not asked: ranges come from where the card was learned. That time stays the same, or
    goes up, is what a card costs by itself and no promise: one that is not slower shows it.
    """
    if effect.metric == "time":
        least = 1.0 if effect.direction == "down" else FLOOR
        return step.ratio is not None and step.ratio > least
    before, after = step.before.get(effect.metric), step.after.get(effect.metric)
    if before is None or after is None:
        return False
    old, new = before.value, after.value
    if not isinstance(old, int | float) or not isinstance(new, int | float):
        return False
    if effect.direction == "same":
        return new == old
    return new > old if effect.direction == "up" else new < old


def _effect_words(effect: Effect) -> str:
    return f"{effect.metric} {effect.direction}"
