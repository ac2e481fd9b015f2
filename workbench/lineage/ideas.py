"""Removals that no inverse edit finds, proposed by a model where one is asked."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from workbench.lineage.records import Attempt


class Idea(Struct, frozen=True, kw_only=True):
    """A mechanism that is to be taken out, and the kernel without it."""

    category: str
    locus: str
    kernel: str
    """The launched kernel that it concerns most."""
    says: str
    source: str
    by: str
    """Who had it: a model's name."""
    usd: float = 0.0
    """Dollars for the exchange that led to it."""


class NoIdea(Struct, frozen=True, kw_only=True):
    """Nothing is proposed."""

    says: str
    spent: bool = False
    """Because a limit on dollars was met, not because there is nothing."""


class NoWayBackError(Exception):
    """Whoever had the idea knows no way back from it; its words are the reason."""


class Ideas(Protocol):
    """Who is asked. Methods block; WorkbenchError where nobody answers."""

    def removal(self, state: str, left: Sequence[str], tried: Sequence[Attempt]) -> Idea | NoIdea:
        """What else could be taken out of a kernel in which no inverse finds anything.

        `left` are mechanisms that it is known to have; `tried` is the walk so far, the next
        attempt is number `len(tried) + 1`.
        """

    def forward(self, idea: Idea, target: str, tried: int) -> tuple[str, float]:
        """The kernel with the mechanism again, made of the one without it, and its dollars.

        `target` says how fast the kernel was that had it. Raises NoWayBackError.
        """
