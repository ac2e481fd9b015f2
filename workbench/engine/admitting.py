"""Tries a card alone: what it was learned from must come back, and it must help where it was not.

After KLineage's roundtrip admission: in a lineage, the predecessor and the card alone
must give a kernel that passes the gate, is no slower than 0.99 of the original step and has the
mechanism; held out, on a problem that the card has no evidence from, the card's step must pass the
gate against its baseline and show the effect it claims. Only the second admits a card.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from msgspec import Struct

from workbench.engine import events as ev
from workbench.engine.create import RunRequest, create_session
from workbench.engine.devices import choose_place
from workbench.engine.grounds import Ground, alone, ground_of, outlooks
from workbench.engine.history import History
from workbench.engine.serve import serve_session
from workbench.engine.workplace import SessionWorkplace
from workbench.gate.records import Verdict
from workbench.kernels.inverses.registry import INVERSES
from workbench.kernels.source import normalized_sha256, read_source
from workbench.kernels.target import target
from workbench.lineage.instances import Instance, steps_of
from workbench.search.proposer import NoProposal
from workbench.session.names import fresh_name
from workbench.session.reader import SessionReader
from workbench.session.records import Answer, Budget, Mode, Transition
from workbench.session.store import SessionStore
from workbench.skills.card import Skill
from workbench.skills.records import Admission, Effect

FLOOR = 0.99
"""Least ratio of a card's step against the original one (KLineage, roundtrip admission)."""

_LOOKING = 0.4
"""Share of the time in which grounds are looked for; ours."""

Tell = Callable[[ev.AnyEvent], None]


class Trial(Struct, frozen=True, kw_only=True):
    """One try of a card, and what came of it."""

    admission: Admission
    """As the card's file keeps it."""
    applied: bool
    """Whether the card had anything to do there; a trial that did not is none."""
    says: str


class Ask(Struct, frozen=True, kw_only=True):
    """Which cards are tried, and where."""

    skills: tuple[Skill, ...]
    problems: tuple[str, ...]
    """Held out: names of grounds (`engine.grounds`); `auto` stands for those that are found."""
    lineages: tuple[Path, ...]
    jobs: int
    """Trials side by side; only timings take turns on a GPU."""
    seconds: float | None
    """After which no trial begins."""
    device: str
    target: str
    sessions: Path
    providers: tuple[Skill, ...] = ()
    """Cards at hand that may provide what a tried one requires."""


def admissions(ask: Ask, tell: Tell) -> Iterator[tuple[Skill, Trial]]:
    """Every trial with its card, in the order of the cards.

    Raises WorkbenchError when a problem, lineage or the device cannot be used.
    """
    until = None if ask.seconds is None else time.monotonic() + ask.seconds
    tasks: list[tuple[Skill, Callable[[], list[Trial]]]] = []
    named = [ground_of(name) for name in ask.problems if name != "auto"]
    for skill in ask.skills:
        tasks += [(skill, partial(_all_roundtrips, skill, one, tell)) for one in ask.lineages]
        tasks += [(skill, partial(_one_held_out, skill, ground, ask, tell)) for ground in named]
    tasks += [
        (skill, partial(_one_held_out, skill, ground, ask, tell)) for skill, ground in _found(ask)
    ]
    side = ThreadPoolExecutor(max_workers=ask.jobs)
    try:
        running = [(skill, side.submit(_in_time, until, work)) for skill, work in tasks]
        for skill, one in running:
            for trial in one.result():
                yield skill, trial
    finally:
        # After a fault, or Ctrl-C, no trial begins that nobody will hear of.
        side.shutdown(cancel_futures=True)


def _found(ask: Ask) -> Iterator[tuple[Skill, Ground]]:
    """Where cards are tried that nobody named a ground for, the best look first."""
    if "auto" not in ask.problems:
        return
    skills = {skill.card.id: skill for skill in ask.skills}
    gpu = target(choose_place(ask.device, ask.target).target)
    until = None if ask.seconds is None else time.monotonic() + ask.seconds * _LOOKING
    for one in outlooks(ask.skills, ask.providers, gpu, ask.jobs, until):
        yield skills[one.card], one.ground


def _in_time(until: float | None, work: Callable[[], list[Trial]]) -> list[Trial]:
    return work() if until is None or time.monotonic() < until else []


def _all_roundtrips(skill: Skill, lineage: Path, tell: Tell) -> list[Trial]:
    return list(roundtrips(skill, lineage, tell))


def _one_held_out(skill: Skill, ground: Ground, ask: Ask, tell: Tell) -> list[Trial]:
    made = held_out(
        skill,
        ground,
        device=ask.device,
        target=ask.target,
        sessions=ask.sessions,
        tell=tell,
        providers=ask.providers,
    )
    return [made]


def held_out(
    skill: Skill,
    ground: Ground,
    *,
    device: str,
    target: str,
    sessions: Path,
    tell: Tell,
    providers: Sequence[Skill] = (),
) -> Trial:
    """Run one step of the card from a kernel that it was not learned from, in a session that is
    kept; cards that provide what it requires are carried out with it.

    Raises WorkbenchError when the problem or the device cannot be used.
    """
    with tempfile.TemporaryDirectory(prefix="workbench-admit-") as scratch:
        kernel = Path(scratch) / "kernel.py"
        kernel.write_text(ground.source, encoding="utf-8")
        path = _session(skill, ground, kernel, device, target, sessions)
    library = alone(skill, providers)
    ended = serve_session(
        path,
        listen=tell,
        open_workplace=lambda store, settings, seed, emit: SessionWorkplace(
            store, settings, seed, emit, library=library
        ),
    )
    tried = ground.problem in {row.problem for row in skill.card.evidence}
    for step in steps_of(SessionReader(path)):
        return _judged(skill, step, ground, held_out=not tried)
    why = ended.says if ended.how == "failed" else ""
    return _nothing(skill, f"{ground.name} on {device}", path.name, held_out=not tried, why=why)


def _session(
    skill: Skill, ground: Ground, kernel: Path, device: str, target: str, sessions: Path
) -> Path:
    """The trial's session, which holds the kernel."""
    name = f"admit-{skill.card.id}-{ground.problem}"
    return create_session(
        RunRequest(
            problem=ground.problem,
            kernel=kernel,
            mode=Mode.AUTO,
            device=device,
            target=target,
            budget=Budget(steps=1),
            proposer="skills",
            name=fresh_name(name, sessions),
            sessions=sessions,
        )
    )


def _judged(skill: Skill, step: Instance, ground: Ground, *, held_out: bool) -> Trial:
    missed = [_effect_words(e) for e in skill.card.effect if not shows(e, step)]
    says = step.says if not missed else f"{step.says}; not seen: {', '.join(missed)}"
    return Trial(
        admission=Admission(
            target=f"{ground.name} on {step.device}",
            held_out=held_out,
            kind="measured" if step.measured else "modeled",
            accepted=step.accepted,
            effect_observed=step.accepted and not missed,
            session=step.session,
            commit=step.commit,
        ),
        applied=True,
        says=says,
    )


def _nothing(skill: Skill, target: str, session: str, *, held_out: bool, why: str = "") -> Trial:
    return Trial(
        admission=Admission(
            target=target,
            held_out=held_out,
            accepted=False,
            effect_observed=False,
            session=session,
        ),
        applied=False,
        says=why or f"{skill.card.id} has no place there, or a condition does not hold",
    )


def shows(effect: Effect, step: Instance) -> bool:
    """Whether a step moved what an effect names, in its direction.

    How far is not asked: ranges come from where the card was learned.
    """
    if effect.metric == "time":
        ratio = step.ratio
        if ratio is None or effect.direction == "same":
            return ratio is not None and FLOOR <= ratio <= 1 / FLOOR
        return (ratio > 1.0) == (effect.direction == "down")
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


def roundtrips(skill: Skill, lineage: Path, tell: Tell) -> Iterator[Trial]:
    """Every step of a lineage that the card's edit made, made again from its predecessor.

    Writes nothing to the lineage. Raises WorkbenchError for a session that cannot be read.
    """
    store = SessionStore.open(lineage)
    settings = store.settings()
    every = [store.transition(v.number) for v in store.overview().versions]
    steps = [t for t in every if _made_by(skill, t)]
    if not steps:
        return
    workplace = SessionWorkplace(
        store, settings, None, tell, library=alone(skill), may_resize=False
    )
    try:
        for step in steps:
            yield _roundtrip(skill, store, workplace, every, step)
    finally:
        workplace.close()


def _made_by(skill: Skill, transition: Transition) -> bool:
    plan = transition.plan
    accepted = transition.decision.answer is Answer.ACCEPTED
    if plan is None or not accepted or plan.edit != skill.card.carrier.edit:
        return False
    places = skill.card.carrier.grid.get("block", ())
    return not places or plan.parameters.get("block") in places


def _roundtrip(
    skill: Skill,
    store: SessionStore,
    workplace: SessionWorkplace,
    every: list[Transition],
    step: Transition,
) -> Trial:
    """One step made again; the proposer sees only what was there before it."""
    settings = store.settings()
    before = tuple(
        t for t in every if t.number < step.number and t.decision.answer is step.decision.answer
    )
    commit = next(v.commit for v in store.overview().versions if v.number == step.number)
    target = f"v{step.number} of {settings.name} on {settings.device}"
    proposal = workplace.foresee(History(transitions=before), {})
    if isinstance(proposal, NoProposal):
        return _nothing(skill, target, settings.name, held_out=False)
    original = store.source(step.number)
    if normalized_sha256(proposal.source) == normalized_sha256(original):
        # The original passed its gate when it was committed; timing it beside itself says nothing.
        accepted, told = True, "the very kernel again"
    else:
        report = workplace.gate_beside(proposal.source, original, step.gate, FLOOR)
        accepted, told = report.verdict is Verdict.ACCEPTED, report.says
    has = _has_mechanism(skill, proposal.source)
    says = told if has else f"{told}; the mechanism is not in what it made"
    return Trial(
        admission=Admission(
            target=target,
            held_out=False,
            kind="modeled" if settings.device_index is None else "measured",
            accepted=accepted,
            effect_observed=accepted and has,
            session=settings.name,
            commit=commit,
        ),
        applied=True,
        says=says,
    )


def _has_mechanism(skill: Skill, source: str) -> bool:
    """Whether an inverse of the card's edit finds something to take out of a kernel again."""
    ours = [inverse for inverse in INVERSES if inverse.edit == skill.card.carrier.edit]
    launched = read_source(source).launched
    return not ours or any(one.removables(source, kernel) for one in ours for kernel in launched)
