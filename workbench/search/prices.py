"""What a rung costs, learned from past costs. Pure."""

from collections.abc import Sequence
from statistics import median
from typing import Protocol

from msgspec import Struct

from workbench.search.ladder import LadderFile


class Price(Struct, frozen=True, kw_only=True):
    """The price of one candidate at one rung, in seconds."""

    gpu_seconds: float
    wall_seconds: float
    seen: int = 0
    """Costs that it was learned from, without the declared price."""


class Prices(Struct, frozen=True, kw_only=True):
    """The prices of all rungs, by name."""

    rungs: dict[str, Price]

    def of(self, rung: str) -> Price:
        """The price of a rung. Raises KeyError for one that is not on the ladder."""
        return self.rungs[rung]


class Costed(Protocol):
    """A result with the costs of a rung."""

    @property
    def rung(self) -> str:
        """Its name."""

    @property
    def gpu_seconds(self) -> float:
        """GPU-seconds of this rung alone."""

    @property
    def wall_seconds(self) -> float:
        """Wall seconds of this rung alone."""


def learned(history: Sequence[Costed], file: LadderFile) -> Prices:
    """The median of a rung's last costs, the declared price counting as a few of them.

    A median, because one candidate that hangs until its time limit must not price a rung out of
    the budget; the last ones only, because a session's kernels grow faster. How many, and how much
    the declared price counts, is `ladder.toml`'s.
    """
    memory, prior = int(file.search.price_memory.value), int(file.search.price_prior.value)
    found = {}
    for name, spec in file.rung.items():
        own = [one for one in history if one.rung == name][-memory:] if memory else []
        declared = prior if own else max(prior, 1)
        found[name] = Price(
            gpu_seconds=median([*[spec.gpu.value] * declared, *(o.gpu_seconds for o in own)]),
            wall_seconds=median([*[spec.wall.value] * declared, *(o.wall_seconds for o in own)]),
            seen=len(own),
        )
    return Prices(rungs=found)
