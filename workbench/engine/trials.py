"""One try of a card, wherever it is made, and what came of it."""

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from workbench.engine import events as ev
from workbench.skills.card import Skill
from workbench.skills.records import Admission

Tell = Callable[[ev.AnyEvent], None]


class Where(Struct, frozen=True, kw_only=True):
    """Where cards are tried, and with what."""

    device: str
    target: str
    """`sm90`; empty for the device's own."""
    sessions: Path
    """Folder of the lineages, and of the sessions that trials leave."""
    providers: tuple[Skill, ...] = ()
    """Cards at hand that may provide what a tried one requires."""
    usd: float | None = None
    """For a model, in each trial of a card that is a sketch."""


class Trial(Struct, frozen=True, kw_only=True):
    """One try of a card, and what came of it."""

    admission: Admission
    """As the card's file keeps it."""
    applied: bool
    """Whether the card had anything to do there; a trial that did not is none."""
    says: str


def nothing(skill: Skill, target: str, session: str, *, held_out: bool, why: str = "") -> Trial:
    """A card that had nothing to do, or of which nobody made anything."""
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
