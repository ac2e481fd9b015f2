"""What a rung costs, learned from past costs, and what a budget has left for it. Pure."""

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Protocol

from msgspec import Struct

from workbench.search.ladder import LadderFile
from workbench.session.records import Budget


class Price(Struct, frozen=True, kw_only=True):
    """The price of one candidate at one rung, in seconds."""

    gpu_seconds: float
    wall_seconds: float
    seen: int = 0
    """Costs that it was learned from, the declared price not among them."""


class Prices(Struct, frozen=True, kw_only=True):
    """The prices of all rungs, by name."""

    rungs: dict[str, Price]

    def of(self, rung: str) -> Price:
        """The price of a rung. Raises KeyError for one that the ladder has not."""
        return self.rungs[rung]


class Spent(Struct, frozen=True, kw_only=True):
    """Seconds spent on every rung so far, by name; what is not there cost nothing."""

    gpu_seconds: dict[str, float] = {}
    wall_seconds: dict[str, float] = {}


class Costed(Protocol):
    """Whatever says what a rung cost."""

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


def spent_on(history: Iterable[Costed]) -> Spent:
    """What every rung cost together."""
    gpu: dict[str, float] = {}
    wall: dict[str, float] = {}
    for one in history:
        gpu[one.rung] = gpu.get(one.rung, 0.0) + one.gpu_seconds
        wall[one.rung] = wall.get(one.rung, 0.0) + one.wall_seconds
    return Spent(gpu_seconds=gpu, wall_seconds=wall)


def no_room(rung: str, file: LadderFile, price: Price, spent: Spent, budget: Budget) -> str:
    """Why a budget has nothing left for one candidate at a rung; empty when it has.

    The rungs up to this one may use their shares together: so a lower rung never takes what is
    kept for a higher one, and what it leaves is not lost.
    """
    for unit, limit, costs, by_rung in (
        ("GPU-seconds", budget.gpu_seconds, price.gpu_seconds, spent.gpu_seconds),
        ("seconds", budget.wall_seconds, price.wall_seconds, spent.wall_seconds),
    ):
        if limit is None:
            continue
        names = list(file.rung)
        below = names[: names.index(rung) + 1]
        share = sum(file.rung[name].share.value for name in below)
        used = sum(by_rung.get(name, 0.0) for name in below)
        every = sum(by_rung.values())
        if used + costs > share * limit or every + costs > limit:
            left = max(0.0, min(share * limit - used, limit - every))
            return f"{rung} costs {costs:.1f} {unit} and {left:.1f} are left for it"
    return ""
