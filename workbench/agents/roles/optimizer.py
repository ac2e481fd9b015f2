"""The optimizer: writes the candidate that a plan asks for."""

from workbench.agents.prompts import Prompt, fill
from workbench.agents.records import Ending, Reply, Role
from workbench.agents.reply import read_reply
from workbench.agents.reply_records import HandedBack, Parsed
from workbench.agents.roles.slots import situation_slots
from workbench.agents.situation import Situation
from workbench.kernels.source import normalized_sha256
from workbench.skills.records import Plan


def prompt(situation: Situation, plan: Plan, room: int) -> Prompt:
    """The optimizer's prompt. Raises DoesNotFit."""
    slots = {**situation_slots(situation), "plan": (plan_text(plan),)}
    return fill(Role.OPTIMIZER, slots, room)


def plan_text(plan: Plan) -> str:
    """A plan as the optimizer, diagnoser and repairer read it."""
    return "\n".join(
        [
            f"{plan.method or plan.card} on {plan.kernel}: {plan.title}",
            plan.intent,
            f"because {plan.reason}",
            f"expected: {plan.expected}",
        ]
    )


def read(reply: Reply, situation: Situation, base: str) -> Parsed | HandedBack:
    """The candidate of a reply; handed back too when the session has gated this source before."""
    parsed = read_reply(
        reply.text,
        base=base,
        signature=situation.signature,
        truncated=reply.ending is Ending.TRUNCATED,
    )
    if isinstance(parsed, HandedBack):
        return parsed
    known = situation.memory.with_source(normalized_sha256(parsed.source))
    if known is not None:
        says = f"that is v{known.number} again, apart from comments and blanks: {known.outcome}"
        return HandedBack(code="known-source", reason=says)
    return parsed
