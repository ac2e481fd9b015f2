"""Turns recorded steps of one mechanism into a card, without a model: nothing without evidence.

KLineage groups transitions by category and locus and lets a model lift a card from them. Here a
group is all steps of one edit at one place, and every line of the card is computed from them:
parameters from those that worked, conditions from what failed (`predicates`), effects from what
was measured, risks from failures that no condition rules out and from steps that were a loss until
others followed, scope from where it was seen. Where a model wrote the steps their changes become
the carrier (`sketch`).
"""

from collections.abc import Iterable, Sequence
from statistics import geometric_mean, median
from typing import Literal

import msgspec
import tomli_w
from msgspec import Struct, structs

from workbench.kernels.edits.registry import EDITS
from workbench.kernels.facts_catalogue import CATALOGUE
from workbench.kernels.records import Fact
from workbench.lineage.instances import LEAST_GAIN, Instance
from workbench.lineage.predicates import Predicate, conditions
from workbench.lineage.sketch import generalized, needed
from workbench.skills.records import (
    Card,
    Carrier,
    Effect,
    EvidenceRow,
    Parameter,
    Precondition,
    Risk,
    Scope,
)

LEAST_CHANGE = 0.05
"""Relative change of a fact that counts as an effect (ours): a smaller one may be a compiler
artifact."""

LEAST_SEEN = 2
"""Steps that must agree before a change of a fact is called an effect (ours)."""

ORDER = {"block-size": 50, "num-warps": 60, "num-stages": 62}
"""Order of edits that tune; everything else is structure and comes first."""
_STRUCTURE = 40


class Induced(Struct, frozen=True, kw_only=True):
    """A draft card with what it was made from."""

    card: Card
    helped: int
    failed: int
    group: tuple[Instance, ...]
    """The recorded uses that it was made from."""


def induce(edit: str, group: Sequence[Instance]) -> Induced | None:
    """The card of one edit's recorded steps at one place; None where none of them helped.

    An empty `edit` means the steps that a model made of one mechanism. Raises KeyError for an edit
    that is not registered.
    """
    helped = [one for one in group if one.helped]
    failed = [one for one in group if not one.helped and not one.removal]
    if not helped:
        return None
    found, left = conditions(helped, failed)
    first = next((one for one in helped if one.locus), helped[0])
    lifted = bool(first.locus) or not edit
    feature = first.feature if lifted else structs.replace(first, category=edit).feature
    name = _name(feature, first.requires)
    anchor, carrier = _carried(edit, helped)
    card = Card(
        id=f"learned-{name}" if edit else f"learned-{name}-sketch",
        title=_title(edit, name),
        intent=_sentence(EDITS[edit].says if edit else first.intent),
        order=_order(edit, helped),
        scope=Scope(
            families=tuple(sorted({one.family for one in helped if one.family})) or ("*",),
            platforms=tuple(sorted({one.target for one in helped})),
        ),
        anchor=f"{anchor}; seen at {_loci(helped)}",
        carrier=carrier,
        precondition=tuple(_precondition(p, failed) for p in found),
        effect=(_time(helped), *_effects(helped)),
        risk=(
            *(_risk(failed[place]) for place in left),
            *_losses(helped),
            *_without([one for one in group if one.removal]),
        ),
        requires=first.requires,
        provides=(feature,) if lifted else (),
        evidence=tuple(_evidence(one) for one in group if not one.removal),
    )
    return Induced(
        card=card,
        helped=len(helped),
        failed=len(failed),
        group=tuple(group),
    )


def _carried(edit: str, helped: Sequence[Instance]) -> tuple[str, Carrier]:
    """The change that all instances share, in words, and the carrier of the step."""
    if edit:
        return f"what the edit `{edit}` finds", Carrier(edit=edit, grid=_grid(edit, helped))
    best = sorted(helped, key=lambda one: -(one.ratio or 0.0))
    made = generalized([one.change for one in best if one.change is not None])
    names = sorted(f"`{name}`" for name in needed(made.text))
    anchor = f"code with {', '.join(names)}, as in the sketch" if names else "as in the sketch"
    if made.of < len(helped):
        anchor = f"{anchor}, which {made.of} of {len(helped)} instances share"
    return anchor, Carrier(sketch=made.text)


def _name(feature: str, requires: Sequence[str]) -> str:
    """The card's name, with the mechanism it depends on: `pipelined-loads-after-fused-loops`."""
    if not requires:
        return feature
    more = f"-and-{len(requires) - 1}-more" if len(requires) > 1 else ""
    return f"{feature}-after-{requires[-1]}{more}"


def card_text(card: Card) -> str:
    """The card's TOML file, without empty entries."""
    plain = msgspec.to_builtins(card)
    blank = msgspec.to_builtins(Card(id="", title="", intent="", carrier=Carrier()))
    kept = {k: _without_blanks(v) for k, v in plain.items() if v != blank.get(k)}
    return tomli_w.dumps(kept)


def _without_blanks(value: object) -> object:
    if isinstance(value, dict):
        return {k: _without_blanks(v) for k, v in value.items() if v not in (None, "", [], (), {})}
    if isinstance(value, list | tuple):
        return [_without_blanks(v) for v in value]
    return value


def _order(edit: str, helped: Sequence[Instance]) -> int:
    """The position in its lineages, naive first: 1 to 100; by its kind if it is in none."""
    seen = [one.position for one in helped if one.position is not None]
    return max(1, round(100 * median(seen))) if seen else ORDER.get(edit, _STRUCTURE)


def _title(edit: str, category: str) -> str:
    words = category.replace("-", " ")
    how = f"edit {edit}" if edit else "a sketch for a model"
    return f"{words.capitalize()} (learned, {how})"


def _sentence(text: str) -> str:
    text = text.strip().rstrip(".")
    return f"{text[:1].upper()}{text[1:]}."


def _loci(helped: Sequence[Instance]) -> str:
    seen = sorted({f"{one.locus or one.kernel} of {one.problem}" for one in helped})
    return ", ".join(seen)


def _grid(edit: str, helped: Sequence[Instance]) -> dict[str, tuple[Parameter, ...]]:
    """Every value that helped, the best first.

    Places are chosen by the anchor, except those whose names other kernels share.
    """
    best = sorted(helped, key=lambda one: -(one.ratio or 0.0))
    grid: dict[str, tuple[Parameter, ...]] = {}
    if best[0].place:
        grid["block"] = (best[0].place,)
    for parameter in EDITS[edit].parameters:
        if not parameter.grid:
            continue
        values = [
            one.parameters[parameter.name] for one in best if parameter.name in one.parameters
        ]
        if values:
            grid[parameter.name] = tuple(dict.fromkeys(values))
    return grid


def _precondition(predicate: Predicate, failed: Sequence[Instance]) -> Precondition:
    first = failed[predicate.excludes[0]]
    seen = _shown(first.before[predicate.fact])
    more = len(predicate.excludes) - 1
    others = f" and {more} more" if more else ""
    return Precondition(
        says=f"{predicate.says}; failed with {seen} in {_place(first)}{others}",
        when=predicate.when,
        category=predicate.category,
    )


def _shown(fact: Fact) -> str:
    value = fact.value
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{text} {fact.unit}".strip()


def _place(one: Instance) -> str:
    return f"{one.session}@{one.commit[:9]}"


def _time(helped: Sequence[Instance]) -> Effect:
    """The range of speedups, from the least to the largest, on whichever side of 1.

    A mechanism that was slower wherever it was seen promises a higher time.
    """
    ratios = [one.ratio for one in helped if one.ratio is not None]
    if not ratios:
        return Effect(metric="time", direction="down")
    middle = geometric_mean(ratios)
    low, high = min(ratios), max(ratios)
    if middle < 1 / LEAST_GAIN:
        return Effect(metric="time", direction="up", low=round(1 / high, 3), high=round(1 / low, 3))
    direction: Literal["down", "same"] = "down" if middle > LEAST_GAIN else "same"
    return Effect(metric="time", direction=direction, low=round(low, 3), high=round(high, 3))


def _effects(helped: Sequence[Instance]) -> list[Effect]:
    """Facts of the compiled kernel and its traffic that changed in one direction wherever it
    helped.

    A single step shows what happened to one kernel, not an effect of the mechanism.
    """
    found: list[Effect] = []
    if len(helped) < LEAST_SEEN:
        return found
    for name, spec in CATALOGUE.items():
        if spec.source not in {"static", "trace"} or spec.type != "number":
            continue
        changes = [_change(one.before[name].value, one.after[name].value) for one in helped]
        known = [change for change in changes if change is not None]
        if len(known) < len(helped):
            continue
        if all(change > 1 + LEAST_CHANGE for change in known):
            found.append(_moved(name, "up", known))
        elif all(change < 1 / (1 + LEAST_CHANGE) for change in known):
            found.append(_moved(name, "down", [1 / change for change in known if change]))
    return found


def _change(before: object, after: object) -> float | None:
    """After over before; None where it has no ratio."""
    if isinstance(before, bool) or isinstance(after, bool):
        return None
    if not isinstance(before, int | float) or not isinstance(after, int | float) or not before:
        return None
    return after / before


def _moved(name: str, direction: str, factors: Sequence[float]) -> Effect:
    effect = Effect(metric=name, direction="same")
    ends = {"low": round(min(factors), 3), "high": round(max(factors), 3)} if factors else {}
    return structs.replace(effect, direction=direction, **ends)


def _risk(one: Instance) -> Risk:
    """A failure that no condition rules out: reported as a risk, not as a condition."""
    return Risk(says=one.says if one.code else f"no gain: {one.says}", seen=_place(one))


def _losses(helped: Sequence[Instance]) -> Iterable[Risk]:
    """Steps of a lineage that were slower by themselves: they pay by what came after them."""
    for one in helped:
        if one.position is not None and one.ratio is not None and one.ratio < 1 / LEAST_GAIN:
            kind = "measured" if one.measured else "modeled"
            says = f"a loss without what came after it: {one.ratio:.2f}x {kind} on {one.problem}"
            yield Risk(says=says, seen=_place(one))


def _without(removals: Sequence[Instance]) -> Iterable[Risk]:
    """Removals that failed: kernels that need the mechanism, or do not profit from it.

    One that was tried again in another state is listed once.
    """
    told: dict[str, Risk] = {}
    for one in removals:
        says = f"taken out of {one.kernel} again: {one.says} [{one.code}]"
        told.setdefault(says, Risk(says=says, seen=_place(one)))
    return told.values()


def _evidence(one: Instance) -> EvidenceRow:
    return EvidenceRow(
        session=one.session,
        commit=one.commit,
        device=one.device,
        kind="measured" if one.measured else "modeled",
        before_us=one.before_us,
        after_us=one.after_us,
        paired=one.speed.paired if one.speed is not None else None,
        verdict="accepted" if one.accepted else "rejected",
        problem=one.problem,
        family=one.family,
        target=one.target,
        says="" if one.helped else one.says,
        parameters=one.parameters,
        was=one.was,
        kernel=one.kernel,
    )
