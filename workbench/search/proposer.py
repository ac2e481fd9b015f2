"""Chooses the next step from the cards: one technique at a time, in a plain order, deterministic.

The order runs from algorithm to decomposition, tiles, warps, masks and hints, since each decides
what the next can do. A card is a draft until a held-out trial admits it; this proposer may choose
drafts, and says so in the plan.
"""

from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Struct

from workbench.kernels.edits.base import Anchor, Edit, EditRefused
from workbench.kernels.facts import read_facts
from workbench.kernels.records import Fact
from workbench.kernels.source import normalized_sha256, read_source
from workbench.search.grid import Axes, Point, patience, points
from workbench.search.line import Line, bound_to, line_of
from workbench.search.profile import session_facts
from workbench.search.records import NoProposal, Proposal, ProposerState, Tried
from workbench.skills.card import Skill
from workbench.skills.conditions import Unknown, check, evaluate_value, parse_value
from workbench.skills.records import Check, Effect, Parameter, Plan, Truth

__all__ = ["NoProposal", "Proposal", "ProposerState", "Tried", "propose"]


class Choice(Struct, frozen=True):
    """A card that could be taken on one kernel, with what was checked."""

    skill: Skill
    edit: Edit
    kernel: str
    place: int
    """Of the kernel among those launched, the one that moves most bytes first."""
    checks: tuple[Check, ...]
    risks: tuple[Check, ...]

    @property
    def rank(self) -> tuple[bool, int, bool, int, str]:
        """Unknown conditions last, then the plain order; a known risk only breaks its ties.

        On an H200, a risk that came before the order kept three-product TF32, worth 1.5x and more
        for fp32 attention, behind every small step: the gate is what tells whether a risk is met.
        """
        unknown = any(c.truth is Truth.UNKNOWN for c in self.checks)
        risky = any(r.truth is Truth.YES for r in self.risks)
        return unknown, self.skill.card.order, risky, self.place, self.skill.card.id


def propose(state: ProposerState) -> Proposal | NoProposal:
    """The next step from the incumbent, or why there is none.

    Looks only at the state: no clock, no randomness, no files. A source that was gated before is
    never proposed again.
    """
    line = line_of(state.history, state.number)
    trail: list[str] = []
    choices: list[Choice] = []
    facts: dict[str, dict[str, Fact]] = {}
    for place, kernel in enumerate(_kernels(state)):
        facts[kernel] = read_facts(
            state.source,
            kernel,
            state.launches,
            state.traces,
            session_facts(state, line),
            state.target,
        )
        for skill in state.library.skills.values():
            refusal = _blocked(skill, state, line)
            found = None if refusal else _choice(skill, kernel, place, state, facts[kernel])
            if isinstance(found, Choice):
                choices.append(found)
            else:
                trail.append(f"{skill.card.id} on {kernel}: {found or refusal}")
    for choice in sorted(choices, key=lambda c: c.rank):
        proposal = _first_new(choice, state, line, facts[choice.kernel], trail)
        if proposal is not None:
            return proposal
    return NoProposal(reason=_nothing_left(state, choices), trail=tuple(trail))


def _nothing_left(state: ProposerState, choices: list[Choice]) -> str:
    if not read_source(state.source).launched:
        return "no kernel is launched in a form that can be read"
    cards = len(state.library.skills)
    fitting = len({c.skill.card.id for c in choices})
    return (
        f"nothing is left to try: of {cards} cards {fitting} fit this kernel, and all their"
        " values were tried or passed over"
    )


def _kernels(state: ProposerState) -> list[str]:
    """Launched kernels, the one that moves most bytes first."""
    moved: dict[str, float] = {}
    for trace in state.traces:
        total = sum(t.loaded + t.stored for t in trace.traffic.values())
        moved[trace.kernel] = moved.get(trace.kernel, 0) + total
    launched = read_source(state.source).launched
    return sorted(launched, key=lambda name: -moved.get(name, 0))


def _blocked(skill: Skill, state: ProposerState, line: Line) -> str:
    """Why a card is out of its scope here; empty when it is in."""
    scope, card = skill.card.scope, skill.card
    on_line = set(line.cards)
    features = line.features(state.library)
    reasons = [
        (not _in(state.family, scope.families), f"made for {', '.join(scope.families)}"),
        ("triton" not in scope.languages, f"made for {', '.join(scope.languages)}"),
        (not _in(state.target.name, scope.platforms), f"made for {', '.join(scope.platforms)}"),
        (bool(set(scope.after) - on_line), f"comes after {', '.join(scope.after)}"),
        (bool(set(scope.not_after) & on_line), f"does not follow {', '.join(scope.not_after)}"),
        (bool(set(card.requires) - features), f"requires {', '.join(card.requires)}"),
        (bool(set(card.conflicts) & features), f"conflicts with {', '.join(card.conflicts)}"),
        (skill.edit is None, "is a sketch for a model"),
    ]
    return next((reason for holds, reason in reasons if holds), "")


def _in(name: str, names: tuple[str, ...]) -> bool:
    """Whether a scope covers a name; an unnamed family is covered by `*` only."""
    return "*" in names or name in names


def _choice(
    skill: Skill, kernel: str, place: int, state: ProposerState, facts: Mapping[str, Fact]
) -> Choice | str:
    """The card with its conditions checked, or why it is out of the question."""
    edit = skill.edit
    if edit is None:
        return "is a sketch for a model"
    refusal = edit.refusal(state.source, kernel)
    if refusal:
        return refusal
    checks = tuple(
        check(p.says, when, facts, p.category)
        for p, when in zip(skill.card.precondition, skill.preconditions, strict=True)
    )
    failed = [c for c in checks if c.truth is Truth.NO]
    if failed:
        return f"{failed[0].says}: {failed[0].because}"
    risks = tuple(
        check(r.says, when, facts)
        for r, when in zip(skill.card.risk, skill.risks, strict=True)
        if when is not None
    )
    return Choice(skill, edit, kernel, place, checks, risks)


def _first_new(
    choice: Choice,
    state: ProposerState,
    line: Line,
    facts: Mapping[str, Fact],
    trail: list[str],
) -> Proposal | None:
    """The first point of a card's grid that gives a source nobody has gated."""
    name = f"{choice.skill.card.id} on {choice.kernel}"
    trials = line.trials(choice.skill.card.id, choice.kernel, state.library)
    last = ""
    grid = choice.skill.card.carrier.grid
    for anchor in choice.edit.anchors(state.source, choice.kernel):
        if any(
            name in grid and value not in grid[name] for name, value in anchor.parameters.items()
        ):
            continue
        here = bound_to(trials, anchor.parameters)
        axes = _axes(choice, anchor, facts)
        refused = sum(not t.accepted for t in here)
        if refused >= patience(axes):
            last = f"failed {refused} times"
            continue
        for point in points(axes, anchor.current, here):
            parameters = {**anchor.parameters, **point}
            try:
                applied = choice.edit.apply(state.source, choice.kernel, parameters)
            except EditRefused as refusal:
                last = refusal.why
                continue
            if normalized_sha256(applied.source) in line.seen:
                last = "every value left gives a source that was tried"
                continue
            plan = _plan(choice, anchor, point, here, facts, (*trail, f"{name}: chosen"))
            return Proposal(plan=plan, source=applied.source)
    trail.append(f"{name}: {last or 'every value was tried'}")
    return None


def _axes(choice: Choice, anchor: Anchor, facts: Mapping[str, Fact]) -> Axes:
    """Values of the parameters that the anchor leaves open; expressions over facts worked out."""
    axes: dict[str, tuple[Parameter, ...]] = {}
    for parameter in choice.edit.parameters:
        if parameter.name in anchor.parameters:
            continue
        values = choice.skill.card.carrier.grid.get(parameter.name, parameter.grid)
        here = _with_anchor(facts, anchor.current.get(parameter.name))
        worked = [_worked_out(v, parameter.kind, here) for v in values]
        known = tuple(dict.fromkeys(v for v in worked if v is not None))
        if known:
            axes[parameter.name] = known
    return axes


def _with_anchor(facts: Mapping[str, Fact], now: Parameter | None) -> dict[str, Fact]:
    """The facts, with what the anchor says now."""
    name = "anchor.value"
    known = isinstance(now, int | float) and not isinstance(now, bool)
    fact = msgspec.structs.replace(facts[name], value=now if known else None)
    return {**facts, name: fact}


def _worked_out(value: Parameter, kind: str, facts: Mapping[str, Fact]) -> Parameter | None:
    if kind != "int" or not isinstance(value, str):
        return value
    found = evaluate_value(parse_value(value), facts)
    return None if isinstance(found, Unknown | tuple | str) else int(found)


def _plan(
    choice: Choice,
    anchor: Anchor,
    point: Point,
    trials: tuple[Tried, ...],
    facts: Mapping[str, Fact],
    trail: tuple[str, ...],
) -> Plan:
    card = choice.skill.card
    bottleneck = facts["profile.bottleneck"].value
    return Plan(
        card=card.id,
        title=card.title,
        intent=card.intent,
        kernel=choice.kernel,
        edit=choice.edit.id,
        parameters={**anchor.parameters, **point},
        was=dict(anchor.current),
        checks=choice.checks,
        risks=choice.risks,
        bottleneck=bottleneck if isinstance(bottleneck, str) else "",
        expected="; ".join(_expected(card.effect)),
        reason=_reason(choice, anchor, point, trials),
        trail=trail,
    )


def _expected(effects: tuple[Effect, ...]) -> Iterator[str]:
    for effect in effects:
        if effect.direction == "same":
            yield f"{effect.metric} the same"
            continue
        ends = [f"{end:g}x" for end in (effect.low, effect.high) if end is not None]
        yield f"{effect.metric} {effect.direction} {' to '.join(ends)}".strip()


def _reason(choice: Choice, anchor: Anchor, point: Point, trials: tuple[Tried, ...]) -> str:
    """Why this card and these values now, in a sentence."""
    wanted = ", ".join(f"{name} {value}" for name, value in point.items())
    if trials and trials[-1].accepted:
        speed = trials[-1].speed
        gain = "" if speed is None else f" ({speed:.2f}x)"
        said = f"it helped last time{gain}; now {wanted}" if wanted else f"it helped{gain}; again"
    elif trials:
        said = f"other values did not help; now {wanted}"
    else:
        said = f"first technique in the plain order that fits {anchor.says}"
    unknown = [c.because for c in choice.checks if c.truth is Truth.UNKNOWN]
    if unknown:
        said += f"; no card is left whose conditions are all known ({unknown[0]})"
    risky = [r.says for r in choice.risks if r.truth is Truth.YES]
    if risky:
        said += f"; at a risk: {risky[0]}"
    return said if choice.skill.admitted else f"{said}; a draft: no held-out trial yet"
