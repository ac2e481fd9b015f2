"""The repairer: mends a refused candidate in at most three places."""

import difflib

from workbench.agents.prompts import Prompt, fill
from workbench.agents.records import Reply, Role
from workbench.agents.reply_records import HandedBack, Parsed
from workbench.agents.roles import optimizer
from workbench.agents.roles.diagnoser import Diagnosis, Refused, refused_slots
from workbench.agents.situation import Situation

PLACES = 3
"""KernelSkill, repair rule: three regions, one path."""
_NEAR = 3
"""Lines between two changes that make one place of them; ours."""


def prompt(situation: Situation, refused: Refused, diagnosis: Diagnosis, room: int) -> Prompt:
    """The repairer's prompt. Raises DoesNotFit."""
    slots = {**refused_slots(situation, refused), "diagnosis": (diagnosis.says(),)}
    return fill(Role.REPAIRER, slots, room)


def read(reply: Reply, situation: Situation, refused: Refused) -> Parsed | HandedBack:
    """The mended candidate; handed back when it changes more places than it may."""
    parsed = optimizer.read(reply, situation, refused.source)
    if isinstance(parsed, HandedBack):
        return parsed
    found = places(refused.source, parsed.source)
    if found > PLACES:
        says = f"{found} places were changed; mend the one cause in at most {PLACES}"
        return HandedBack(code="too-many-places", reason=says)
    return parsed


def places(before: str, after: str) -> int:
    """In how many places two texts differ; changes a few lines apart are one."""
    matcher = difflib.SequenceMatcher(a=before.split("\n"), b=after.split("\n"), autojunk=False)
    count, last = 0, -_NEAR - 1
    for kind, start, end, _, _ in matcher.get_opcodes():
        if kind != "equal":
            count += start - last > _NEAR
            last = end
    return count
