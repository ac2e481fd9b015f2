"""The diagnoser: the one cause of a refusal, with words that the gate really said."""

from collections.abc import Iterator, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from workbench.agents.memory import Attempt
from workbench.agents.prompts import Prompt, fill
from workbench.agents.records import Role
from workbench.agents.reply_json import read_form
from workbench.agents.reply_records import HandedBack
from workbench.agents.roles.optimizer import plan_text
from workbench.agents.roles.planner import Sentence, Words
from workbench.agents.roles.reviewer import review
from workbench.agents.roles.slots import history_text, situation_slots
from workbench.agents.situation import Situation
from workbench.gate.records import GateReport
from workbench.skills.records import Plan


class Refused(Struct, frozen=True, kw_only=True):
    """A candidate that is to be mended."""

    number: int
    source: str
    gate: GateReport
    plan: Plan
    chain: tuple[Attempt, ...] = ()
    """Earlier tries to mend it, oldest first."""


class Diagnosis(Struct, frozen=True, kw_only=True):
    """The reply as it is asked for."""

    critical_issue: Sentence
    evidence: Annotated[tuple[Words, ...], Meta(max_length=12)]
    root_cause: Words
    trigger_condition: Sentence = ""
    must_hold_invariants: Annotated[tuple[Sentence, ...], Meta(max_length=3)] = ()
    minimal_fix: Words
    patch_anchor: Words

    def says(self) -> str:
        """As the repairer reads it."""
        lines = [
            f"issue: {self.critical_issue}",
            f"cause: {self.root_cause}",
            f"when: {self.trigger_condition or 'always'}",
            f"fix: {self.minimal_fix}",
            f"where: {self.patch_anchor}",
        ]
        return "\n".join([*lines, *(f"keep: {one}" for one in self.must_hold_invariants)])


def refused_slots(situation: Situation, refused: Refused) -> dict[str, tuple[str, ...]]:
    """The situation's slots with the refused candidate in place of the incumbent."""
    return {
        **situation_slots(situation),
        "number": (str(refused.number),),
        "code": (refused.source.rstrip("\n"),),
        "plan": (plan_text(refused.plan),),
        "review": (review(refused.gate),),
        "chain": (chain_text(refused.chain), chain_text(refused.chain[-1:])),
    }


def chain_text(chain: Sequence[Attempt]) -> str:
    """Earlier repairs, a line each."""
    return history_text(chain) if chain else "none"


def prompt(situation: Situation, refused: Refused, room: int) -> Prompt:
    """The diagnoser's prompt. Raises DoesNotFit."""
    return fill(Role.DIAGNOSER, refused_slots(situation, refused), room)


def read(text: str, refused: Refused) -> Diagnosis | HandedBack:
    """The diagnosis of a reply, or everything that is wrong with it."""
    form = read_form(text, Diagnosis)
    if isinstance(form, HandedBack):
        return form
    wrong = tuple(_wrong(form, refused))
    return HandedBack(code="claims", reason="; ".join(wrong)) if wrong else form


def _wrong(form: Diagnosis, refused: Refused) -> Iterator[str]:
    said = _squeezed(review(refused.gate))
    if not any(part.strip() for part in form.evidence):
        yield "`evidence` needs a part of what the gate said"
    for part in form.evidence:
        if _squeezed(part) not in said:
            yield f"the gate did not say {part[:80]!r}"
    times = refused.source.count(form.patch_anchor) if form.patch_anchor.strip() else 0
    if times != 1:
        yield f"`patch_anchor` stands {times} times in the candidate, not once"
    if not form.minimal_fix.strip():
        yield "`minimal_fix` is empty"


def _squeezed(text: str) -> str:
    return " ".join(text.split())
