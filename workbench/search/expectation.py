"""How much a card is expected to gain here: its promise, its evidence, and this session so far."""

import math
from collections.abc import Iterable

from msgspec import Struct

from workbench.search.records import Tried
from workbench.skills.evidence import rows_that_count
from workbench.skills.policy_table import PolicyTable
from workbench.skills.records import Card


class Expected(Struct, frozen=True):
    """A gain that is expected, as a ratio of times, and what it rests on."""

    ratio: float
    says: str


def expected_gain(
    card: Card, table: PolicyTable, family: str, target: str, trials: Iterable[Tried]
) -> Expected:
    """The weighted geometric mean of the card's promise and of observed gains.

    The promise is the middle of the card's effect on the time. An accepted transition counts with
    its ratio, any other with 1. Evidence from another family or platform counts less, and so does
    modeled evidence; every refusal in this session takes a part of what is left. The weights are
    the policy's. Depends on its arguments only.
    """
    ranking = table.file.ranking
    promise, says = _promise(card, table)
    total, weight = math.log(promise) * ranking.promise_weight, ranking.promise_weight
    rows = rows_that_count(card.evidence)
    for row in rows:
        here = family in {row.family, ""} and target in {row.target, ""}
        counts = 1.0 if here else ranking.other_place_weight
        counts *= 1.0 if row.kind == "measured" else ranking.modeled_weight
        total += counts * math.log(_kept(row.verdict == "accepted", row.ratio))
        weight += counts
    refused = seen = 0
    for trial in trials:
        seen += 1
        refused += not trial.accepted
        total += math.log(_kept(trial.accepted, trial.speed))
        weight += 1.0
    ratio = math.exp(total / weight * ranking.refusal_factor**refused)
    parts = [says]
    if rows:
        helped = sum(row.verdict == "accepted" for row in rows)
        parts.append(f"{helped} of {len(rows)} recorded transitions kept")
    if seen:
        parts.append(f"{seen - refused} of {seen} tries here kept")
    return Expected(round(ratio, 3), ", ".join(parts))


def _promise(card: Card, table: PolicyTable) -> tuple[float, str]:
    for effect in card.effect:
        if effect.metric == "time" and effect.direction == "down":
            ends = [end for end in (effect.low, effect.high) if end is not None and end > 0]
            if ends:
                words = " to ".join(f"{end:g}x" for end in ends)
                return math.sqrt(ends[0] * ends[-1]), f"promised {words}"
    gain = table.file.default.gain
    return gain, f"no promise, {gain:g}x assumed"


def _kept(accepted: bool, ratio: float | None) -> float:
    return ratio if accepted and ratio is not None and ratio > 0 else 1.0


def size_word(ratio: float, table: PolicyTable) -> str:
    """`large`, `medium` or `small`, by the policy's bounds."""
    ranking = table.file.ranking
    if ratio >= ranking.large:
        return "large"
    return "medium" if ratio >= ranking.medium else "small"
