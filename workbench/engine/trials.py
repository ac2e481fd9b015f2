"""Records of trials of cards: where they are made, and their results."""

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from workbench.engine import events as ev
from workbench.skills.card import Skill
from workbench.skills.records import Admission

Tell = Callable[[ev.AnyEvent], None]


class Where(Struct, frozen=True, kw_only=True):
    """Where cards are tried, and with what means."""

    device: str
    target: str
    """`sm90`; empty for the device's own target."""
    sessions: Path
    """Folder of the lineages, and of the sessions that trials create."""
    providers: tuple[Skill, ...] = ()
    """Cards that may provide what a tried card requires."""
    usd: float | None = None
    """Dollars for a model in each trial of a card that is a sketch; None for no limit."""


class Trial(Struct, frozen=True, kw_only=True):
    """One trial of a card, and its result."""

    admission: Admission
    """The result as the card's file records it."""
    applied: bool
    """Whether the card could be applied there; if not, the trial does not count."""
    says: str
    """The result in words."""


def nothing(skill: Skill, target: str, session: str, *, held_out: bool, why: str = "") -> Trial:
    """The trial of a card that could not be applied; `why` defaults to that it has no place."""
    return Trial(
        admission=Admission(
            target=target,
            held_out=held_out,
            accepted=False,
            effect_observed=False,
            session=session,
        ),
        applied=False,
        says=why or f"{skill.card.id} has no place there, or a condition does not hold",
    )
