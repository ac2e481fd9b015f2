"""Coarse to fine: first cards that change the algorithm or its decomposition, then tuning."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from workbench.search.ladder import SearchSpec
from workbench.search.line import Line
from workbench.search.stops import plateau_reached, round_gain


class Phase(StrEnum):
    """What a search is choosing between."""

    COARSE = "coarse"
    """Algorithm and decomposition: cards of the policy's coarse levels."""
    FINE = "fine"
    """Everything else."""


class Placed(Protocol):
    """A card that fits, as far as the phase needs it."""

    @property
    def coarse(self) -> bool:
        """Whether its level is one of the coarse ones."""

    @property
    def setback(self) -> bool:
        """Whether it was tried here and is not worth another try before the others."""


def gains_of(line: Line) -> tuple[float, ...]:
    """What each round of a session gained, the seed not among them; 1 where it gained nothing."""
    return tuple(
        round_gain(accepted=one.accepted, speed=one.speed)
        for one in line.history
        if one.parent is not None
    )


def rested(line: Line, spec: SearchSpec) -> str:
    """Why the coarse phase ends before its cards are used up; empty while it does not."""
    return plateau_reached(gains_of(line), spec)


def phase_of(left: Sequence[Placed], rest: str) -> tuple[Phase, str]:
    """The phase with the reason for it; `left` are the cards that may still be taken.

    Coarse, until no algorithmic card that fits is left or the plateau rule ends it (ours; that
    coarse comes before fine is KernelBrain's).
    """
    if rest:
        return Phase.FINE, rest
    coarse = sum(one.coarse and not one.setback for one in left)
    if not coarse:
        return Phase.FINE, "no card that changes the algorithm fits, or all were tried"
    fit = (
        "card that changes the algorithm fits"
        if coarse == 1
        else ("cards that change the algorithm fit")
    )
    return Phase.COARSE, f"{coarse} {fit}: before tuning"
