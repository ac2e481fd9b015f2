"""The remover and the restorer: one takes a mechanism out of an expert, one puts it back in.

After KLineage's decompose: the removal sees what was accepted and refused before; the
forward edit sees the predecessor and the mechanism's name, and not the expert.
"""

import re
from collections.abc import Sequence

from msgspec import Struct

from workbench.agents.prompts import Prompt, fill
from workbench.agents.records import Ending, Reply, Role
from workbench.agents.reply import read_reply
from workbench.agents.reply_records import HandedBack, Parsed
from workbench.agents.roles.slots import problem_text, shared_slots
from workbench.agents.situation import signature_of
from workbench.kernels.source import normalized_sha256
from workbench.kernels.target import Target
from workbench.problems.records import Problem
from workbench.skills.library import Library

NONE = "none"
_LINE = re.compile(r"^\W*(mechanism|at|says)\W*:[ \t]*(.+?)\W*$", re.MULTILINE | re.IGNORECASE)
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_SHORT = 200
"""Characters of a line that is kept; ours."""


class About(Struct, frozen=True, kw_only=True):
    """What both roles are told about the place."""

    problem: Problem
    library: Library
    target: Target


class Removal(Struct, frozen=True, kw_only=True):
    """A mechanism that a model takes out; without a name nothing is left for it."""

    mechanism: str
    at: str = ""
    says: str = ""
    source: str = ""


def removal_prompt(
    about: About, source: str, left: Sequence[str], tried: Sequence[str], room: int
) -> Prompt:
    """What the remover is asked; `left` is what no inverse covers. Raises DoesNotFit."""
    history = "\n".join(f"- {line}" for line in tried) or "nothing yet"
    slots = {
        **_slots(about, source),
        "left": ("\n".join(f"- it has {line}" for line in left) or "nothing beside its text",),
        "history": (history, history[-2000:]),
    }
    return fill(Role.REMOVER, slots, room)


def restorer_prompt(about: About, source: str, removal: Removal, target: str, room: int) -> Prompt:
    """What the restorer is asked: the kernel without the mechanism, and its name. DoesNotFit."""
    where = f" at {removal.at}" if removal.at else ""
    slots = {
        **_slots(about, source),
        "mechanism": (f"{removal.mechanism}{where}: {removal.says or 'no more is known of it'}",),
        "target": (target,),
    }
    return fill(Role.RESTORER, slots, room)


def _slots(about: About, source: str) -> dict[str, tuple[str, ...]]:
    return {
        **shared_slots(about.library),
        "problem": (problem_text(about.problem, about.target.name, about.target.device),),
        "code": (source.rstrip("\n"),),
    }


def read_removal(reply: Reply, problem: Problem, base: str) -> Removal | HandedBack:
    """The removal of a reply. A text that says what the kernel says already takes nothing out."""
    told = {key.lower(): value.strip()[:_SHORT] for key, value in _LINE.findall(reply.text)}
    name = told.get("mechanism", "").lower()
    if name == NONE:
        return Removal(mechanism="")
    if not _NAME.fullmatch(name):
        reason = "a line `mechanism: name-in-kebab-case` must say what is taken out"
        return HandedBack(code="no-mechanism", reason=reason)
    parsed = read_restored(reply, problem, base)
    if isinstance(parsed, HandedBack):
        return parsed
    return Removal(
        mechanism=name, at=told.get("at", ""), says=told.get("says", ""), source=parsed.source
    )


def read_restored(reply: Reply, problem: Problem, base: str) -> Parsed | HandedBack:
    """The candidate of a reply."""
    parsed = read_reply(
        reply.text,
        base=base,
        signature=signature_of(problem.source),
        truncated=reply.ending is Ending.TRUNCATED,
    )
    if isinstance(parsed, HandedBack):
        return parsed
    if normalized_sha256(parsed.source) == normalized_sha256(base):
        return HandedBack(code="no-change", reason="that is the kernel as it was given")
    return parsed
