"""Tries a card alone: what it was learned from must come back, and it must help where it was not.

After KLineage's roundtrip admission: in a lineage, the predecessor and the card alone
must give a kernel that passes the gate, is no slower than 0.99 of the original step and has the
mechanism; held out, on a problem that the card has no evidence from, the card's step must pass the
gate against its baseline and show the effect it claims. Only the second admits a card.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path

from msgspec import Struct

from workbench.engine.chances import Chance, alone, chance_of, ground_named
from workbench.engine.choosing import Choice, keep
from workbench.engine.create import RunRequest, check_models, create_session
from workbench.engine.devices import choose_place
from workbench.engine.grounds import Ground
from workbench.engine.holding import FLOOR
from workbench.engine.outlooks import MOST, Found, Outlook, outlooks
from workbench.engine.roundtrips import roundtrips
from workbench.engine.serve import serve_session
from workbench.engine.sketching import present
from workbench.engine.trials import Tell, Trial, Where, nothing
from workbench.engine.workplace import SessionWorkplace
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
    """Held out: names of grounds (`engine.grounds`); `auto` stands for those that are found."""
    lineages: tuple[Path, ...]
    jobs: int
    """Trials side by side; only timings take turns on a GPU."""
    seconds: float | None
    """Seconds after which no trial starts."""
    where: Where
    most: int = MOST
    """Grounds of each card that `auto` finds."""


class Untried(Struct, frozen=True, kw_only=True):
    """A card for which no trial was found."""

    skill: Skill
    reasons: tuple[str, ...]
    """On each ground that it was looked for on."""


def admissions(ask: Ask, tell: Tell) -> Iterator[tuple[Skill, Trial] | Untried]:
    """Every trial with its card, as each ends, so that a killed run keeps it; and what found none.

    Raises WorkbenchError when a problem, lineage or the device cannot be used.
    """
    if any(skill.edit is None for skill in ask.skills):
        check_models(Budget(usd=ask.where.usd))
    until = None if ask.seconds is None else time.monotonic() + ask.seconds
    where, skills = ask.where, {skill.card.id: skill for skill in ask.skills}
    named = [ground_named(name, where.providers) for name in ask.problems if name != "auto"]
    found = _found(ask)
    tasks: list[tuple[Skill, Callable[[], list[Trial]]]] = []
    for skill in ask.skills:
        tasks += [
            (skill, partial(_all_roundtrips, skill, one, tell, where.usd)) for one in ask.lineages
        ]
        tasks += [(skill, partial(_one_held_out, skill, ground, where, tell)) for ground in named]
    tasks += [
        (skills[one.card], partial(_one_found, skills[one.card], one, where, tell))
        for one in found.outlooks
    ]
    side = ThreadPoolExecutor(max_workers=ask.jobs)
    try:
        running = {side.submit(_in_time, until, work): skill for skill, work in tasks}
        for one in as_completed(running):
            for trial in one.result():
                yield running[one], trial
    finally:
        # After a fault, or Ctrl-C, no trial begins that nobody will hear of.
        side.shutdown(cancel_futures=True)
    for card, reasons in found.reasons.items():
        yield Untried(skill=skills[card], reasons=reasons)


def _found(ask: Ask) -> Found:
    """Where cards are tried that nobody named a ground for, the best look first."""
    if "auto" not in ask.problems:
        return Found(outlooks=(), reasons={})
    place = choose_place(ask.where.device, ask.where.target)
    gpu, elsewhere = target(place.target), place.index is not None
    until = None if ask.seconds is None else time.monotonic() + ask.seconds * _LOOKING
    return outlooks(ask.skills, ask.where.providers, gpu, ask.jobs, until, elsewhere=elsewhere)


def _in_time(until: float | None, work: Callable[[], list[Trial]]) -> list[Trial]:
    return work() if until is None or time.monotonic() < until else []


def _all_roundtrips(skill: Skill, lineage: Path, tell: Tell, usd: float | None) -> list[Trial]:
    return list(roundtrips(skill, lineage, tell, usd))


def _one_held_out(skill: Skill, ground: Ground, where: Where, tell: Tell) -> list[Trial]:
    return [held_out(skill, ground, where, tell)]


def _one_found(skill: Skill, found: Outlook, where: Where, tell: Tell) -> list[Trial]:
    """The trial of a card, alone or as a part of another one's step."""
    chance = found.chance
    return [_tried(skill, chance.skill, chance.ground, where, tell)]


def held_out(skill: Skill, ground: Ground, where: Where, tell: Tell, together: str = "") -> Trial:
    """Run one step of the card from a kernel that it was not learned from, in a session that is
    kept; cards that provide what it requires are carried out with it. A sketch is carried out by a
    model. `together` names a card that requires this one, and whose step is run instead.

    Raises WorkbenchError when the problem or the device cannot be used, or there is no such card.
    """
    by = (
        Library({one.card.id: one for one in where.providers}).skill(together) if together else None
    )
    carried = by or skill
    if carried.edit is not None:
        family = load_problem(ground.problem).family
        chance = chance_of(carried, ground, family, where.providers)
        if not isinstance(chance, Chance):
            place = f"{ground.name} on {where.device}"
            return nothing(skill, place, "", held_out=_unseen(skill, ground), why=chance)
        carried = chance.skill
    return _tried(skill, carried, ground, where, tell)


def _unseen(skill: Skill, ground: Ground) -> bool:
    """Whether a card has no evidence from a ground's problem."""
    return ground.problem not in {row.problem for row in skill.card.evidence}


def _tried(skill: Skill, carried: Skill, ground: Ground, where: Where, tell: Tell) -> Trial:
    """One step of `carried` as a trial of `skill`: the same card, or one that it prepares."""
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
        return _judged(skill, carried, step, ground)
    place = f"{ground.name} on {where.device}"
    return nothing(skill, place, path.name, held_out=_unseen(skill, ground), why=ended.says)


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
