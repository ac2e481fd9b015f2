"""A person's choice of the next step: one of the allowed skills, perhaps with their own words.

A choice is a line of a journal, so it survives a restart; a step names the choice that it carries
out, so it is carried out once. A choice that cannot be carried out is withdrawn, and the run
continues by itself.
"""

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct, structs

from workbench.agents.allowed import AllowedSkill
from workbench.agents.records import NoCandidate
from workbench.agents.situation import Situation
from workbench.engine import events as ev
from workbench.engine.history import History
from workbench.engine.opening import lock_path
from workbench.engine.talks import Talks
from workbench.engine.wishes import Choose
from workbench.errors import WorkbenchError
from workbench.search.proposer import propose
from workbench.search.records import NoProposal, Proposal
from workbench.session.journal import Journal, read_records
from workbench.session.lock import EngineLock
from workbench.session.records import SessionSettings
from workbench.session.store import SessionStore
from workbench.skills.library import load_library
from workbench.skills.policy_table import shipped_policy
from workbench.skills.records import Plan

CHOICES = "choices.jsonl"
"""Name of the file of choices in the session's state folder."""
LONGEST = 1600
"""Characters of a person's words, which replace a planner's; ours, as for a planner's own."""


class Choice(Struct, frozen=True, kw_only=True):
    """One line: a choice, or the withdrawal of the one before."""

    skill: str = ""
    """Empty: the choice before is withdrawn."""
    kernel: str = ""
    """Empty: the first one that the skill is allowed on."""
    change: str = ""
    """What to change, in place of a planner's sentence."""
    says: str = ""
    """Why the choice before is withdrawn."""


class Maker(Protocol):
    """Makes a step of a choice."""

    @property
    def talks(self) -> Talks | None:
        """Access to models; None in a session without."""

    def situation(self, history: History, hints: tuple[str, ...] = ()) -> Situation:
        """What is known of the incumbent."""


def keep(state: Path, choice: Choice) -> None:
    """Record a choice. Raises WorkbenchError where that fails."""
    with Journal(state / CHOICES) as journal:
        journal.append(lambda _: msgspec.json.encode(choice), durable=True)


def open_choice(state: Path, history: History) -> tuple[int, Choice] | None:
    """The newest choice with its position, from 1, until a step has carried it out."""
    records = read_records(state / CHOICES, Choice).records
    if not records or not records[-1].skill:
        return None
    place = len(records)
    done = any(t.plan is not None and t.plan.asked == place for t in history.transitions)
    return None if done else (place, records[-1])


def check_skill(skill: str) -> None:
    """Raise WorkbenchError for a name of neither a card nor a method; suggests the nearest."""
    known = [*load_library().skills, *(method.id for method in shipped_policy().file.method)]
    if skill not in known:
        near = difflib.get_close_matches(skill, known, n=1, cutoff=0.0)
        raise WorkbenchError(
            f"there is no skill {skill!r}",
            where="--skill",
            todo=f"the nearest is {near[0]}; `workbench plan` lists those that are allowed",
        )


def choose(state: Path, settings: SessionSettings, wish: Choose) -> str:
    """Take a wish down; what is done about it. Raises WorkbenchError for one that cannot be."""
    if not wish.skill:
        keep(state, Choice(says="by whoever chose"))
        return "your choice is withdrawn; the run chooses by itself"
    check_skill(wish.skill)
    change = wish.change.strip()
    if change and settings.proposer == "skills":
        raise WorkbenchError(
            "no model is asked in this session, so nobody could carry out your words",
            todo="leave --change out, or write the candidate and `workbench submit` it",
        )
    if len(change) > LONGEST:
        raise WorkbenchError(
            f"that plan has {len(change)} characters; at most {LONGEST} are read",
            todo="say it in four sentences; code belongs into `workbench submit`",
        )
    keep(state, Choice(skill=wish.skill, kernel=wish.kernel, change=change))
    return f"{wish.skill} is the next step, if it is allowed on the kernel then"


def choose_alone(path: Path, wish: Choose) -> str:
    """As `choose`, for a session without an engine. Raises WorkbenchError if one runs."""
    store = SessionStore.open(path)
    with EngineLock(lock_path(store), session=path.name):
        return choose(store.state, store.settings(), wish)


class Chooser:
    """Makes steps of a person's choices. Blocks, in a thread."""

    def __init__(
        self,
        state: Path,
        settings: SessionSettings,
        maker: Maker,
        emit: Callable[[ev.AnyEvent], None],
    ) -> None:
        self._state = state
        self._settings = settings
        self._maker = maker
        self._emit = emit

    def choose(self, wish: Choose) -> str:
        """Record a choice; returns what will be done. Raises WorkbenchError for an invalid one."""
        return choose(self._state, self._settings, wish)

    def next(self, history: History) -> Proposal | NoCandidate | None:
        """The step that is wanted; None where none is, or where it cannot be made, which is told.

        Raises BudgetEnds, and WorkbenchError when no model can be reached.
        """
        found = open_choice(self._state, history)
        if found is None:
            return None
        place, choice = found
        made = self._made(choice, history)
        if isinstance(made, Proposal):
            plan = structs.replace(made.plan, asked=place)
            return structs.replace(made, plan=plan)
        if isinstance(made, NoProposal):
            keep(self._state, Choice(says=made.reason))
            says = f"{choice.skill}, which you chose, could not be made: {made.reason}"
            self._emit(ev.Note(level="warning", says=says))
            return None
        return made

    def _made(self, choice: Choice, history: History) -> Proposal | NoCandidate | NoProposal:
        talks = self._maker.talks
        hints = () if talks is None else talks.hints(history.next_number)
        situation = self._maker.situation(history, hints)
        skill = open_to(situation, choice.skill, choice.kernel)
        if isinstance(skill, str):
            return NoProposal(reason=skill)
        why = "no edit carries it out"
        if self._settings.proposer != "llm" and skill.card and not choice.change:
            made = propose(situation.state, (skill.id, skill.kernel))
            if isinstance(made, Proposal):
                return made
            name = f"{skill.id} on {skill.kernel}: "
            said = [line.removeprefix(name) for line in made.trail if line.startswith(name)]
            why = said[-1] if said else made.reason
        if talks is None:
            return NoProposal(reason=why)
        return talks.carry_out(situation, wanted_plan(skill, choice.change))


def open_to(situation: Situation, skill: str, kernel: str) -> AllowedSkill | str:
    """A skill that may be tried now, by the policy or because a card fits; else the reason."""
    for one in situation.allowed:
        if one.id == skill and kernel in {"", one.kernel}:
            return one
    refused = ""
    for considered in situation.considered:
        if kernel not in {"", considered.kernel}:
            continue
        for ranked in considered.ranked:
            card = ranked.choice.skill.card
            if card.id == skill:
                return AllowedSkill(
                    id=skill,
                    card=True,
                    kernel=considered.kernel,
                    title=card.title,
                    intent=card.intent,
                    checks=ranked.choice.checks,
                    risks=ranked.choice.risks,
                )
        refused = refused or considered.refused.get(skill, "")
    kernels = ", ".join(one.kernel for one in situation.considered)
    return refused or f"the policy does not allow it here (kernels: {kernels})"


def wanted_plan(skill: AllowedSkill, change: str) -> Plan:
    """The plan for a person's choice, for a model to carry out."""
    return Plan(
        card=skill.id if skill.card else "",
        title=skill.title,
        intent=change or skill.intent,
        kernel=skill.kernel,
        method=skill.id,
        checks=skill.checks,
        risks=skill.risks,
        reason="a person chose it",
    )
