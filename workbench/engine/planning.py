"""What comes next in a session, without doing it: the plan of the cards, and a model's prompt."""

import tempfile
from pathlib import Path

from msgspec import Struct

from workbench.agents.allowed import AllowedSkill
from workbench.agents.ledger import hints_of, read_lines
from workbench.agents.model_settings import ModelSettings, load_models
from workbench.agents.prompts import DoesNotFit, Prompt
from workbench.agents.records import Message, Role
from workbench.agents.roles import optimizer
from workbench.agents.roles.diagnoser import Refused
from workbench.agents.situation import Situation
from workbench.agents.step import next_prompt
from workbench.engine.choosing import Choice, open_choice, open_to, wanted_plan
from workbench.engine.create import noted_seed
from workbench.engine.devices import elsewhere, here
from workbench.engine.events import AnyEvent
from workbench.engine.history import History
from workbench.engine.moving import read_history
from workbench.engine.talks import refused_of
from workbench.engine.workplace import SessionWorkplace
from workbench.errors import WorkbenchError
from workbench.search.records import NoProposal, Proposal
from workbench.session.names import spoken
from workbench.session.store import SessionStore
from workbench.skills.records import Plan


class Planned(Struct, frozen=True, kw_only=True):
    """The next step of a session as it stands now."""

    number: int
    parent: int
    says: str
    """What a model would be asked to do, in a sentence."""
    plan: Plan | None = None
    """What the cards alone would do; None where no edit is left."""
    reason: str = ""
    """Why the cards have nothing, where they have not."""
    chosen: str = ""
    """The skill that a person wants next, if any."""
    not_chosen: str = ""
    """Why it cannot be the next step, where it cannot."""
    allowed: tuple[AllowedSkill, ...] = ()
    """Skills that a model, or whoever stands in for it, may choose from."""
    role: str
    """Role of the prompt."""
    prompt: tuple[Message, ...]
    tokens: int
    """Estimated tokens of the prompt."""
    trimmed: tuple[str, ...] = ()


def plan_next(path: Path, role: str = "") -> Planned:
    """The next step, with the prompt of a role (by default the one that is asked first).

    Changes nothing in the session and asks no model. Raises WorkbenchError when the session has no
    kernel yet, for a role that has no prompt here, when its GPU is not here, and when the prompt
    does not fit the model.
    """
    store = SessionStore.open(path)
    history = read_history(store)
    if history.incumbent is None:
        raise WorkbenchError(
            "the session has no kernel to plan from", todo=f"workbench resume {spoken(path)}"
        )
    situation, by_cards = _looked_at(store, history)
    refused = refused_of(history, situation.memory, store.source)
    plan = by_cards.plan if isinstance(by_cards, Proposal) else None
    chosen = open_choice(store.state, history)
    wanted = _wanted(situation, chosen)
    asked = wanted if isinstance(wanted, Plan) else plan
    prompt = _prompt(situation, refused, asked, role)
    return Planned(
        number=history.next_number,
        parent=history.incumbent.number,
        says=_says(refused, situation),
        plan=plan,
        reason="" if isinstance(by_cards, Proposal) else by_cards.reason,
        chosen="" if chosen is None else chosen[1].skill,
        not_chosen=wanted if isinstance(wanted, str) else "",
        allowed=situation.allowed,
        role=prompt.role.value,
        prompt=prompt.messages,
        tokens=prompt.tokens,
        trimmed=prompt.trimmed,
    )


def _wanted(situation: Situation, chosen: tuple[int, Choice] | None) -> Plan | str:
    """The plan of a person's choice, or why it cannot be one; empty where none is open."""
    if chosen is None:
        return ""
    choice = chosen[1]
    skill = open_to(situation, choice.skill, choice.kernel)
    return skill if isinstance(skill, str) else wanted_plan(skill, choice.change)


def _looked_at(store: SessionStore, history: History) -> tuple[Situation, Proposal | NoProposal]:
    """What is known of the incumbent, and what the cards would do; writes nothing."""
    with tempfile.TemporaryDirectory(prefix="workbench-plan-") as scratch:
        workplace = SessionWorkplace(
            store,
            here(store.settings(), store.folder, todo=elsewhere(store.folder)),
            noted_seed(store),
            _nobody,
            scratch=Path(scratch),
            may_resize=False,
        )
        try:
            hints = hints_of(read_lines(store.state), history.next_number)
            return workplace.situation(history, hints), workplace.foresee(history, {})
        finally:
            workplace.close()


def _nobody(event: AnyEvent) -> None:
    """Nobody listens to what a look into the future reports."""


def _says(refused: Refused | None, situation: Situation) -> str:
    if refused is not None:
        return f"v{refused.number} was refused: find the cause and mend it"
    count = len(situation.allowed)
    return f"choose one of {count} allowed skills and carry it out on v{situation.state.number}"


def _prompt(situation: Situation, refused: Refused | None, plan: Plan | None, role: str) -> Prompt:
    first = Role.DIAGNOSER if refused is not None else Role.PLANNER
    wanted = role or first.value
    if wanted not in {first.value, Role.OPTIMIZER.value}:
        raise WorkbenchError(
            f"there is no prompt of the role {role!r} here",
            where="--role",
            todo=f"use {first.value} or optimizer",
        )
    room = _room(Role(wanted))
    try:
        if wanted == Role.OPTIMIZER.value:
            return optimizer.prompt(situation, plan or _first_allowed(situation), room)
        return next_prompt(situation, refused, room)
    except DoesNotFit as fault:
        raise WorkbenchError(str(fault), todo="set context_tokens under [model]") from fault


def _first_allowed(situation: Situation) -> Plan:
    """Where no edit is left, the first skill that the policy allows."""
    if not situation.allowed:
        raise WorkbenchError(
            "the policy allows no skill here, so there is nothing to carry out",
            todo="write the candidate yourself: `workbench submit SESSION FILE`",
        )
    skill = situation.allowed[0]
    return Plan(
        card=skill.id if skill.card else "",
        title=skill.title,
        intent=skill.intent,
        kernel=skill.kernel,
        method=skill.id,
        checks=skill.checks,
        risks=skill.risks,
        reason="the first skill that the policy allows",
    )


def _room(role: Role) -> int:
    """What the role's model reads beside its reply; the defaults where no model is named."""
    try:
        settings = load_models().of(role)
    except WorkbenchError:
        settings = ModelSettings(model="")
    return settings.context_tokens - settings.reply_tokens
