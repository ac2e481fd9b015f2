"""Removals that no inverse edit finds, proposed by a model where one is asked."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from workbench.lineage.records import Attempt


class Idea(Struct, frozen=True, kw_only=True):
    """A mechanism to remove, and the kernel without it."""

    category: str
    locus: str
    kernel: str
    """The launched kernel that it mainly concerns."""
    says: str
    source: str
    by: str
    """The model that proposed it."""
    usd: float = 0.0
    """Dollars for the requests that led to it."""


class NoIdea(Struct, frozen=True, kw_only=True):
    """No removal is proposed."""

    says: str
    spent: bool = False
    """Because a limit on dollars was reached, not because there is nothing."""


class NoWayBackError(Exception):
    """The model cannot restore the mechanism; the text is its reason."""


class Ideas(Protocol):
    """Proposes removals. Methods block; WorkbenchError where no model can be reached."""

    def removal(self, state: str, left: Sequence[str], tried: Sequence[Attempt]) -> Idea | NoIdea:
        """Another removal, for a kernel in which no inverse edit finds anything.

        `left` are mechanisms that it is known to have; `tried` is the walk so far, so that the next
        attempt is number `len(tried) + 1`.
        """

    def forward(self, idea: Idea, target: str, tried: int) -> tuple[str, float]:
        """The kernel with the mechanism again, made from the one without it, and its dollars.

        `target` states how fast the kernel with the mechanism was. Raises NoWayBackError.
        """
