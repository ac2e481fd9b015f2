"""Whether a card's scope, features and standing let it be chosen here; pure functions."""

from collections.abc import Collection

from workbench.search.line import Line
from workbench.search.records import ProposerState
from workbench.skills.card import Skill
from workbench.skills.policy_table import Standing
from workbench.skills.records import Card


def blocked(skill: Skill, state: ProposerState, line: Line, standing: Standing) -> str:
    """Why a card is out of the question here, whatever the kernel; empty when it is not."""
    card = skill.card
    reason = standing_refusal(skill, state, standing) or scope_refusal(
        card, state.family, state.target.name, line.cards
    )
    if reason:
        return reason
    return feature_refusal(card, line.features(state.library)) or (
        "is a sketch for a model" if skill.edit is None else ""
    )


_FROM = {"draft": 0, "tried": 1, "admitted": 2}


def standing_refusal(skill: Skill, state: ProposerState, rule: Standing) -> str:
    """Disabled by a person, or without the trials that it needs and not asked for."""
    card_id = skill.card.id
    if card_id in state.library.disabled:
        return "disabled by you"
    # Whoever edits a shipped card wants it to go on being chosen.
    own = skill.origin == "user" and skill.replaces is None
    least = rule.own_from if own else "tried" if rule.shipped_draft == "asked" else "draft"
    if _FROM[skill.standing] >= _FROM[least] or card_id in state.library.pinned:
        return ""
    return f"{skill.standing}, not yet {least}: only when asked, workbench skills pin {card_id}"


def scope_refusal(card: Card, family: str, platform: str, prior: Collection[str]) -> str:
    """What of a card's scope does not cover this; empty when all does.

    `prior` are the cards accepted on the line. An unnamed family is covered by `*` only.
    """
    scope = card.scope
    for name, names in ((family, scope.families), (platform, scope.platforms)):
        if "*" not in names and name not in names:
            return f"made for {', '.join(names)}"
    if not {"*", "triton"} & set(scope.languages):
        return f"made for {', '.join(scope.languages)}"
    if set(scope.after) - set(prior):
        return f"comes after {', '.join(scope.after)}"
    if set(scope.not_after) & set(prior):
        return f"does not follow {', '.join(scope.not_after)}"
    return ""


def feature_refusal(card: Card, present: Collection[str]) -> str:
    """A feature that is missing, or one that is in the way; empty when neither."""
    if set(card.requires) - set(present):
        return f"requires {', '.join(card.requires)}"
    if set(card.conflicts) & set(present):
        return f"conflicts with {', '.join(card.conflicts)}"
    return ""
