"""Which skills a model may choose from, by the decision policy: cards that fit, methods without."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from workbench.search.line import Line
from workbench.search.proposer import Considered
from workbench.search.ranking import methods_of
from workbench.search.records import ProposerState
from workbench.search.retrieval import Place, outside
from workbench.search.scope import standing_refusal
from workbench.skills.card import Skill
from workbench.skills.conditions import check
from workbench.skills.policy_table import PolicyTable, shipped_policy
from workbench.skills.records import Check, Truth


class AllowedSkill(Struct, frozen=True, kw_only=True):
    """One thing that a model may be asked to do to one kernel."""

    id: str
    """A card's, or a method's of the policy where no card fits."""
    card: bool
    kernel: str
    title: str
    intent: str
    checks: tuple[Check, ...] = ()
    risks: tuple[Check, ...] = ()


def allowed_skills(
    state: ProposerState, line: Line, considered: Sequence[Considered]
) -> tuple[AllowedSkill, ...]:
    """Per kernel, in the policy's order: cards of the methods that its first case allows and whose
    conditions do not fail, also where no edit can carry them; then those methods without a card.

    Where no case holds, every card that is not forbidden and does not fail.
    """
    table = shipped_policy()
    return tuple(allowed for one in considered for allowed in _of_kernel(state, line, one, table))


def _of_kernel(
    state: ProposerState, line: Line, one: Considered, table: PolicyTable
) -> Iterator[AllowedSkill]:
    first = one.ruling.cases[0].case if one.ruling.cases else None
    closed = set(one.record.forbidden_methods)
    served: set[str] = set()
    for skill in _in_order(state, one):
        methods = methods_of(skill, table)
        # What a person asks for by pinning it is offered, whatever the policy thinks.
        asked = skill.card.id in state.library.pinned
        if methods and methods <= closed and not asked:
            continue
        if first is not None and not methods & set(first.allow) and not asked:
            continue
        if _out_of_scope(skill, state, line, table):
            continue
        checks, risks = _checked(skill, one)
        if any(c.truth is Truth.NO for c in checks):
            continue
        served |= methods
        card = skill.card
        yield AllowedSkill(
            id=card.id,
            card=True,
            kernel=one.kernel,
            title=card.title,
            intent=card.intent,
            checks=checks,
            risks=risks,
        )
    for method in table.file.method:
        open_to_us = first is not None and method.id in first.allow and method.id not in closed
        if open_to_us and method.id not in served:
            title = method.id.replace("_", " ")
            yield AllowedSkill(
                id=method.id, card=False, kernel=one.kernel, title=title, intent=method.says
            )


def _in_order(state: ProposerState, one: Considered) -> list[Skill]:
    """The cards that the policy ranked first, in its order, then the rest in the library's."""
    ranked = [r.choice.skill for r in one.ranked]
    return [*ranked, *(s for s in state.library.skills.values() if s not in ranked)]


def _out_of_scope(skill: Skill, state: ProposerState, line: Line, table: PolicyTable) -> str:
    place = Place(
        family=state.family,
        platform=state.target.name,
        prior=line.cards,
        features=line.features(state.library),
    )
    return standing_refusal(skill, state, table.file.standing) or outside(skill.card, place)


def _checked(skill: Skill, one: Considered) -> tuple[tuple[Check, ...], tuple[Check, ...]]:
    card = skill.card
    checks = tuple(
        check(p.says, when, one.facts, p.category)
        for p, when in zip(card.precondition, skill.preconditions, strict=True)
    )
    risks = tuple(
        check(r.says, when, one.facts)
        for r, when in zip(card.risk, skill.risks, strict=True)
        if when is not None
    )
    return checks, risks
