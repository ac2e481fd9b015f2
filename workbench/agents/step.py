"""One round towards the next candidate: mend the last one, or plan and write a new one."""

from collections.abc import Callable
from typing import TypeVar

from msgspec import structs

from workbench.agents.asking import Ask, Asker, fitting, in_two_turns
from workbench.agents.prompts import DoesNotFit, Prompt, shortened
from workbench.agents.records import NoCandidate, Role
from workbench.agents.reply_records import HandedBack, Parsed
from workbench.agents.roles import diagnoser, generator, optimizer, planner, repairer
from workbench.agents.roles.diagnoser import Refused
from workbench.agents.situation import Situation
from workbench.errors import WorkbenchError
from workbench.kernels.target import Target
from workbench.problems.records import Problem
from workbench.search.records import Proposal
from workbench.skills.library import Library
from workbench.skills.records import Plan

T = TypeVar("T")
_REASON = 600
"""Characters of a reason that a person reads in the log; ours."""
Outcome = Proposal | NoCandidate


def next_candidate(situation: Situation, refused: Refused | None, ask: Asker) -> Outcome:
    """The next candidate, by a model. `refused` is the one to be mended, where there is one.

    Raises BudgetEnds before a request that cannot be afforded, and WorkbenchError when the model
    cannot be reached or the kernel does not fit what it reads.
    """
    if refused is not None:
        return _fitting(ask, lambda: _mend(situation, refused, ask))
    return _fitting(ask, lambda: _plan(situation, ask))


def carry_out(situation: Situation, plan: Plan, ask: Asker) -> Outcome:
    """The candidate of a plan that a person made, by a model; raises as `next_candidate`."""
    return _fitting(ask, lambda: _write(situation, plan, ask))


def first_candidate(
    problem: Problem, library: Library, target: Target, ask: Asker, earlier: str = ""
) -> Parsed | NoCandidate:
    """A candidate for a problem that has none; `earlier` says why the last one was refused."""

    def generate() -> Parsed | NoCandidate:
        prompt = generator.prompt(problem, library, target, ask.room(Role.GENERATOR), earlier)
        found = in_two_turns(
            ask, Role.GENERATOR, prompt, lambda reply: generator.read(reply, problem)
        )
        return _failed(Role.GENERATOR, found) if isinstance(found, HandedBack) else found

    return _fitting(ask, generate)


def next_prompt(situation: Situation, refused: Refused | None, room: int) -> Prompt:
    """The prompt that the next round begins with. Raises DoesNotFit."""
    if refused is not None:
        return diagnoser.prompt(situation, refused, room)
    return planner.prompt(situation, room)


def _fitting(ask: Asker, work: Callable[[], T]) -> T:
    """Do the work in prompts that fit. Raises WorkbenchError where none does."""
    try:
        return fitting(ask, work)
    except DoesNotFit as fault:
        raise WorkbenchError(
            str(fault), todo="set context_tokens under [model] of config.toml, or another model"
        ) from fault


def _plan(situation: Situation, ask: Ask) -> Outcome:
    prompt = planner.prompt(situation, ask.room(Role.PLANNER))
    plan = in_two_turns(
        ask, Role.PLANNER, prompt, lambda reply: planner.read(reply.text, situation)
    )
    if isinstance(plan, HandedBack):
        return _failed(Role.PLANNER, plan)
    return _write(situation, plan, ask)


def _write(situation: Situation, plan: Plan, ask: Ask) -> Outcome:
    prompt = optimizer.prompt(situation, plan, ask.room(Role.OPTIMIZER))
    base = situation.state.source
    found = in_two_turns(
        ask, Role.OPTIMIZER, prompt, lambda reply: optimizer.read(reply, situation, base)
    )
    if isinstance(found, HandedBack):
        return _failed(Role.OPTIMIZER, found)
    return _proposal(plan, found, prompt)


def _mend(situation: Situation, refused: Refused, ask: Ask) -> Outcome:
    prompt = diagnoser.prompt(situation, refused, ask.room(Role.DIAGNOSER))
    diagnosis = in_two_turns(
        ask, Role.DIAGNOSER, prompt, lambda reply: diagnoser.read(reply.text, refused)
    )
    if isinstance(diagnosis, HandedBack):
        return _failed(Role.DIAGNOSER, diagnosis)
    prompt = repairer.prompt(situation, refused, diagnosis, ask.room(Role.REPAIRER))
    found = in_two_turns(
        ask, Role.REPAIRER, prompt, lambda reply: repairer.read(reply, situation, refused)
    )
    if isinstance(found, HandedBack):
        return _failed(Role.REPAIRER, found)
    plan = structs.replace(
        refused.plan,
        repairs=refused.number,
        reason=f"mends v{refused.number}: {diagnosis.root_cause}; {diagnosis.minimal_fix}",
    )
    return _proposal(plan, found, prompt)


def _failed(role: Role, wrong: HandedBack) -> NoCandidate:
    why = shortened(wrong.reason, _REASON)
    return NoCandidate(says=f"the {role}'s reply could not be used: {why} [{wrong.code}]")


def _proposal(plan: Plan, parsed: Parsed, prompt: Prompt) -> Proposal:
    """The plan with how its candidate was read, so that every change of ours is on record."""
    trail = [f"read from a {parsed.form} reply"]
    trail += [f"repaired ({repair.code}): {repair.says}" for repair in parsed.repairs]
    trail += [f"left out of the prompt: {what}" for what in prompt.trimmed]
    return Proposal(plan=structs.replace(plan, trail=tuple(trail)), source=parsed.source)
