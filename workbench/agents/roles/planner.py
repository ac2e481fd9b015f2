"""The planner: one skill of those that the policy allows, argued with numbers that are true."""

import math
import re
from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import Meta, Struct

from workbench.agents.claims import readings, shown_quantities, unsupported
from workbench.agents.claims_words import NUMBER, number
from workbench.agents.prompts import Prompt, fill
from workbench.agents.records import Role
from workbench.agents.reply_json import read_form
from workbench.agents.reply_records import HandedBack
from workbench.agents.roles.features import value_text
from workbench.agents.roles.slots import situation_slots
from workbench.agents.situation import Situation
from workbench.problems.arithmetic import is_number
from workbench.skills.policy_table import shipped_policy
from workbench.skills.records import Plan, Truth

Name = Annotated[str, Meta(max_length=160)]
Sentence = Annotated[str, Meta(max_length=400)]
Words = Annotated[str, Meta(max_length=1600)]
"""Characters; ours. What a model writes here stands in the commit, on the screen and in later
prompts: four sentences are room enough, and a reply that goes on for ever crowds out nothing."""

Value = bool | int | float | Sentence | None


class Cited(Struct, frozen=True, kw_only=True):
    """A fact by name, with the value that the model says it has."""

    fact: Name
    value: Value


class RuledOut(Cited, frozen=True, kw_only=True):
    """A bottleneck that it is not, and the fact that shows it."""

    bottleneck: Name


class Expectation(Struct, frozen=True, kw_only=True):
    """What should change, and how."""

    metric: Name
    direction: Literal["up", "down", "same"]


class PlanForm(Struct, frozen=True, kw_only=True):
    """The reply as it is asked for."""

    skill: Name
    kernel: Name
    bottleneck: Name
    modification: Words
    evidence: Annotated[tuple[Cited, ...], Meta(max_length=12)]
    statement: Name = ""
    ruled_out: RuledOut
    expected: Annotated[tuple[Expectation, ...], Meta(max_length=12)]
    must_not_worsen: Annotated[tuple[Name, ...], Meta(max_length=12)] = ()
    headroom: Sentence = ""
    earlier: int | None = None
    difference: Words = ""


def prompt(situation: Situation, room: int) -> Prompt:
    """The planner's prompt. Raises DoesNotFit."""
    return fill(Role.PLANNER, situation_slots(situation), room)


def read(text: str, situation: Situation) -> Plan | HandedBack:
    """The plan that a reply makes, or everything that is wrong with it."""
    form = read_form(text, PlanForm)
    if isinstance(form, HandedBack):
        return form
    wrong = tuple(_wrong(form, situation))
    if wrong:
        return HandedBack(code="claims", reason="; ".join(wrong))
    return _plan(form, situation)


def _wrong(form: PlanForm, situation: Situation) -> Iterator[str]:
    kernels = {one.kernel for one in situation.considered}
    if form.kernel not in kernels:
        yield f"there is no kernel {form.kernel!r}; there is {', '.join(sorted(kernels))}"
        return
    if situation.skill(form.skill, form.kernel) is None:
        offered = ", ".join(s.id for s in situation.allowed if s.kernel == form.kernel) or "none"
        yield f"{form.skill!r} is not allowed on {form.kernel}; allowed: {offered}"
    yield from _claims(form, situation)
    if len(form.modification.split()) < 4:
        yield "`modification` does not say what to change"
    if len({e.metric for e in form.expected}) < 2:
        yield "`expected` needs two different metrics with a direction"
    refusal = situation.memory.refusal(
        form.skill,
        form.kernel,
        situation.state.number,
        form.modification,
        earlier=form.earlier,
        difference=form.difference,
    )
    if refusal:
        yield refusal


def _claims(form: PlanForm, situation: Situation) -> Iterator[str]:
    """Every claim about the profile that the profile does not bear out."""
    known = situation.facts(form.kernel)
    if not form.evidence:
        yield "`evidence` needs at least one fact with its value"
    for cited in (*form.evidence, form.ruled_out):
        if cited.fact not in known:
            yield f"there is no known fact {cited.fact!r}"
        elif not agrees(_bare(cited, form.kernel, situation), known[cited.fact]):
            yield f"{cited.fact} is {_shown(known[cited.fact])}, not {_shown(cited.value)}"
    if form.evidence and not any(is_number(known.get(c.fact)) for c in form.evidence):
        yield "`evidence` needs at least one number"
    yield from _read_by_policy(form, situation)
    yield from _told(form, situation)
    yield from _cited_in_prose(form, situation)
    held = _held(situation, form.kernel)
    if held and form.statement not in held:
        yield f"`statement` {form.statement!r} is none of what holds: {', '.join(held)}"


def _read_by_policy(form: PlanForm, situation: Situation) -> Iterator[str]:
    """What the decision policy reads otherwise than the reply does."""
    names = bottlenecks(situation, form.kernel)
    record = next(one.record for one in situation.considered if one.kernel == form.kernel)
    found = {record.bottleneck, record.limit} & names - {"unknown", ""} or names
    for name, where, among in (
        (form.bottleneck, "bottleneck", found),
        (form.ruled_out.bottleneck, "ruled_out.bottleneck", names),
    ):
        if name not in among:
            yield f"`{where}` {name!r} is none of {', '.join(sorted(among))}"
    if form.bottleneck == form.ruled_out.bottleneck:
        yield f"{form.bottleneck} is claimed and ruled out at once"
    if record.headroom in _HEADROOM and form.headroom not in {"", record.headroom}:
        yield f"`headroom` is {record.headroom}, not {form.headroom!r}"


_HEADROOM = {"high", "medium", "low"}


def _told(form: PlanForm, situation: Situation) -> Iterator[str]:
    """Shares, times and speedups in the reply's sentences that stand nowhere in its prompt."""
    slots = situation_slots(situation)
    shown = shown_quantities("\n".join(slots[name][0] for name in _NUMBERED))
    shown += readings(slots["library"][0])
    metrics = " ".join([*(e.metric for e in form.expected), *form.must_not_worsen])
    for name, text in (
        ("modification", form.modification),
        ("difference", form.difference),
        ("expected", metrics),
    ):
        for says in unsupported(text, shown):
            yield f"`{name}` says {says!r}, and nothing that you were shown does: leave it out"


def _cited_in_prose(form: PlanForm, situation: Situation) -> Iterator[str]:
    """Facts that a sentence names with another value than theirs; what it sets them to is free."""
    facts = next(one.facts for one in situation.considered if one.kernel == form.kernel)
    for match in _CITATION.finditer(f"{form.modification}\n{form.difference}"):
        name, value = match[1], number(match[2])
        if name in facts and not agrees(value, facts[name].value):
            yield f"{name} is {_shown(facts[name].value)}, not {match[2]}"


_CITATION = re.compile(rf"\b([a-z]+\.[a-z]\w*) (?:is|was|of|at|reads|being) (?:only )?{NUMBER}")
_NUMBERED = ("time", "facts", "policy", "allowed", "history", "hints")
"""Slots of the prompt whose numbers a sentence may repeat, ratios too."""


def bottlenecks(situation: Situation, kernel: str) -> set[str]:
    """Names that a plan may give to what holds a kernel back."""
    names = {rule.id for rule in shipped_policy().file.bottleneck}
    for one in situation.considered:
        if one.kernel == kernel:
            names |= {one.record.bottleneck, one.record.limit}
    return names


def _held(situation: Situation, kernel: str) -> tuple[str, ...]:
    """Ids of the predicates that hold."""
    return tuple(
        check.says.partition(":")[0]
        for one in situation.considered
        if one.kernel == kernel
        for check in one.record.predicates
        if check.truth is Truth.YES
    )


def _bare(cited: Cited, kernel: str, situation: Situation) -> Value:
    """A cited value without the unit that the prompt writes behind it; with any other it stays."""
    units = (one.facts[cited.fact].unit for one in situation.considered if one.kernel == kernel)
    unit = next(units, "")
    if isinstance(cited.value, str) and unit and cited.value.endswith(unit):
        return cited.value.removesuffix(unit).strip()
    return cited.value


def agrees(said: Value, known: object) -> bool:
    """Whether a cited value is the fact's: a count exactly, others to the digits shown (four)."""
    if isinstance(known, bool) or isinstance(said, bool):
        return said is known or str(said).lower() == str(known).lower()
    if isinstance(known, int | float):
        try:
            number = float(said) if isinstance(said, int | float | str) else math.nan
        except ValueError:
            return False
        if isinstance(known, int):
            return number == known
        return value_text(number) == value_text(known)
    if isinstance(known, tuple):
        return str(said) in known or str(said) == value_text(known)
    return str(said) == str(known)


def _shown(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else repr(value)


def _plan(form: PlanForm, situation: Situation) -> Plan:
    skill = situation.skill(form.skill, form.kernel)
    if skill is None:
        raise ValueError("a plan is made of a form that was checked")
    cited = ", ".join(f"{c.fact} = {c.value}" for c in form.evidence)
    out = form.ruled_out
    reason = f"{cited}; not {out.bottleneck}: {out.fact} = {out.value}"
    if form.earlier is not None:
        reason += f"; unlike v{form.earlier}: {form.difference}"
    record = next(one.record for one in situation.considered if one.kernel == form.kernel)
    expected = ", ".join(f"{e.metric} {e.direction}" for e in form.expected)
    if form.must_not_worsen:
        expected += f"; not worse: {', '.join(form.must_not_worsen)}"
    return Plan(
        card=skill.id if skill.card else "",
        title=skill.title,
        intent=form.modification,
        kernel=form.kernel,
        method=skill.id,
        checks=skill.checks,
        risks=skill.risks,
        bottleneck=form.bottleneck,
        expected=expected,
        reason=reason,
        policy=record,
    )
