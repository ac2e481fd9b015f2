"""Whether a card's scope, features and standing let it be chosen here; pure functions."""

from workbench.search.line import Line
from workbench.search.records import ProposerState
from workbench.search.retrieval import Place, outside
from workbench.skills.card import Skill
from workbench.skills.evidence import rows_that_count
from workbench.skills.policy_table import Standing


def blocked(skill: Skill, state: ProposerState, line: Line, standing: Standing) -> str:
    """Why a card is out of the question here, whatever the kernel; empty when it is not."""
    place = Place(
        family=state.family,
        platform=state.target.name,
        prior=line.cards,
        features=line.features(state.library),
    )
    return (
        standing_refusal(skill, state, standing)
        or outside(skill.card, place)
        or ("is a sketch for a model" if skill.edit is None else "")
    )


_FROM = {"draft": 0, "tried": 1, "admitted": 2}


def standing_refusal(skill: Skill, state: ProposerState, rule: Standing) -> str:
    """Why a card may not be chosen unasked: disabled by a person, or without trials."""
    card_id = skill.card.id
    if card_id in state.library.disabled:
        return "disabled by you"
    if card_id in state.library.pinned:
        return ""
    # An edited shipped card stays eligible.
    own = skill.origin == "user" and skill.replaces is None
    least = rule.own_from if own else "tried" if rule.shipped_draft == "asked" else "draft"
    asking = f"only when asked, workbench skills pin {card_id}"
    if _FROM[skill.standing] < _FROM[least]:
        return f"{skill.standing}, not yet {least}: {asking}"
    measured = {r.problem for r in rows_that_count(skill.card.evidence) if r.kind == "measured"}
    if skill.standing == "draft" and len(measured) >= rule.given_up:
        return f"a draft that was measured on {len(measured)} problems and kept on none: {asking}"
    return ""
