"""The generator: writes the first candidate of a problem that has none."""

from workbench.agents.prompts import Prompt, fill
from workbench.agents.records import Ending, Reply, Role
from workbench.agents.reply import read_reply
from workbench.agents.reply_records import HandedBack, Parsed
from workbench.agents.roles.slots import problem_text, shared_slots
from workbench.agents.situation import signature_of
from workbench.kernels.target import Target
from workbench.problems.records import Problem
from workbench.skills.library import Library


def prompt(
    problem: Problem, library: Library, target: Target, room: int, earlier: str = ""
) -> Prompt:
    """The generator's prompt; `earlier` is the review of a first try. Raises DoesNotFit."""
    slots = {
        **shared_slots(library),
        "problem": (problem_text(problem, target.name, target.device),),
        "review": (f"A first try was refused:\n\n{earlier}" if earlier else "",),
    }
    return fill(Role.GENERATOR, slots, room)


def read(reply: Reply, problem: Problem) -> Parsed | HandedBack:
    """The candidate of a reply."""
    return read_reply(
        reply.text,
        signature=signature_of(problem.source),
        truncated=reply.ending is Ending.TRUNCATED,
    )
