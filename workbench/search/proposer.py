"""Chooses the next step from the cards by the decision policy: one card a step, deterministic.

Facts of every launched kernel give a ruling (`skills.policy`); the cards that fit are ranked by it,
by evidence and by what this session tried (`search.ranking`); the first that gives a source nobody
has gated is the step. The plan keeps the whole trail.
"""

from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Struct, structs

from workbench.kernels.edits.base import Anchor, EditRefused
from workbench.kernels.facts import read_facts
from workbench.kernels.records import Fact
from workbench.kernels.source import normalized_sha256, read_source
from workbench.measure.ncu.facts import ncu_facts
from workbench.search.grid import Axes, Point, patience, points
from workbench.search.line import Line, bound_to, line_of
from workbench.search.phase import Phase, phase_of, rested
from workbench.search.profile import session_facts
from workbench.search.ranking import Choice, Ranked, in_order, methods_of, rank
from workbench.search.records import NoProposal, Proposal, ProposerState, Tried, search_of
from workbench.search.scope import blocked
from workbench.search.together import missing, prepared, prepares, without_requirements
from workbench.skills.card import Skill
from workbench.skills.conditions import Unknown, check, evaluate_value, parse_value
from workbench.skills.policy import Ruling, decide, told
from workbench.skills.policy_table import PolicyTable, shipped_policy
from workbench.skills.records import Effect, Parameter, Plan, PolicyRecord, Truth

__all__ = ["NoProposal", "Proposal", "ProposerState", "Tried", "consider", "propose"]


RANKED = 20
"""Cards of a ranking that a plan keeps; the others are in its trail."""


class Considered(Struct, frozen=True, kw_only=True):
    """One launched kernel: its facts, the policy's ruling, and the result for every card."""

    kernel: str
    facts: dict[str, Fact]
    ruling: Ruling
    ranked: tuple[Ranked, ...]
    """The cards that fit, best first."""
    refused: dict[str, str]
    """Why each of the other cards is out of the question, by id."""
    vetoed: tuple[str, ...]
    """Cards that fit but that the policy forbids."""

    @property
    def record(self) -> PolicyRecord:
        """The ruling with the cards it concerns."""
        first = self.ruling.cases[0].case.id if self.ruling.cases else ""
        return structs.replace(
            self.ruling.record,
            allowed=tuple(r.choice.skill.card.id for r in self.ranked if first and r.case == 0),
            forbidden=tuple(f"{card}: {self.refused[card]}" for card in self.vetoed),
            ranking=tuple(r.says for r in self.ranked[:RANKED]),
        )


def propose(state: ProposerState, only: tuple[str, str] | None = None) -> Proposal | NoProposal:
    """The next step from the incumbent, or why there is none; `only` by one card, on one kernel.

    Looks only at the state: no clock, no randomness, no files. A source that was gated before is
    never proposed again.
    """
    line = line_of(state.history, state.number)
    kernels = {one.kernel: one for one in consider(state, line)}
    trail = [
        f"{card} on {one.kernel}: {why}"
        for one in kernels.values()
        for card, why in one.refused.items()
    ]
    fitting = [r for one in kernels.values() for r in one.ranked]
    ranked = in_order([r for r in fitting if only in {None, _name(r.choice)}])
    rest = rested(line, search_of(state))
    for place, candidate in enumerate(ranked):
        found = _first_new(candidate, state, line, kernels[candidate.choice.kernel], trail)
        if found is not None:
            return _in_phase(found, *phase_of(ranked[place:], rest))
    policy = [line for one in kernels.values() for line in told(one.record)]
    reason = _nothing_left(state, [r.choice for r in ranked])
    return NoProposal(reason=reason, trail=(*policy, *trail))


def _name(choice: Choice) -> tuple[str, str]:
    return choice.skill.card.id, choice.kernel


def _in_phase(found: Proposal, phase: Phase, why: str) -> Proposal:
    """The proposal with the phase that it was chosen in."""
    trail = (f"phase {phase}: {why}", *found.plan.trail)
    return structs.replace(found, plan=structs.replace(found.plan, phase=phase.value, trail=trail))


def consider(state: ProposerState, line: Line) -> Iterator[Considered]:
    """Every launched kernel against every card, the one that moves most bytes first."""
    table = shipped_policy()
    about = session_facts(state, line)
    for place, kernel in enumerate(_kernels(state)):
        known = {**about, **ncu_facts(state.ncu, kernel)}
        facts = read_facts(state.source, kernel, state.launches, state.traces, known, state.target)
        ruling = decide(facts, table)
        ranked: list[Ranked] = []
        refused: dict[str, str] = {}
        vetoed: list[str] = []
        for skill in state.library.skills.values():
            found = _judged(skill, kernel, state, line, facts, table)
            # A pinned card is tried whatever the policy says.
            asked = isinstance(found, str) or skill.card.id in state.library.pinned
            veto = "" if asked else ruling.veto(methods_of(skill, table))
            if veto:
                vetoed.append(skill.card.id)
            if isinstance(found, str) or veto:
                refused[skill.card.id] = veto or str(found)
            else:
                ranked.append(rank(found, ruling, state, line, table, place=place))
        yield Considered(
            kernel=kernel,
            facts=facts,
            ruling=ruling,
            ranked=tuple(in_order(ranked)),
            refused=refused,
            vetoed=tuple(vetoed),
        )


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
    """Launched kernels, the one that moves most bytes first, also those launched indirectly."""
    moved: dict[str, float] = {}
    for trace in state.traces:
        total = sum(t.loaded + t.stored for t in trace.traffic.values())
        moved[trace.kernel] = moved.get(trace.kernel, 0) + total
    source = read_source(state.source)
    ran = [one.kernel for one in state.launches if source.kernel(one.kernel) is not None]
    launched = [*source.launched, *ran]
    return sorted(dict.fromkeys(launched), key=lambda name: -moved.get(name, 0))


def _judged(
    skill: Skill,
    kernel: str,
    state: ProposerState,
    line: Line,
    facts: Mapping[str, Fact],
    table: PolicyTable,
) -> Choice | str:
    """The card with its conditions checked, or why it is out of the question."""
    ready = None
    if missing(skill, line, state.library):
        ready = prepared(skill, kernel, state, line)
    able = skill if ready is None else without_requirements(skill)
    refusal = blocked(able, state, line, table.file.standing)
    if not refusal and (other := prepares(skill, state, line)):
        refusal = f"pays only with {other}, which is tried with it"
    edit = skill.edit
    if refusal or edit is None:
        return refusal
    checks = tuple(
        check(p.says, when, facts, p.category)
        for p, when in zip(skill.card.precondition, skill.preconditions, strict=True)
    )
    failed = [c for c in checks if c.truth is Truth.NO]
    if failed:
        return f"{failed[0].says}: {failed[0].because}"
    # Last, because it parses the text: cards that facts rule out need no anchor.
    refusal = edit.refusal(ready.source if ready else state.source, kernel)
    if refusal:
        return refusal
    risks = tuple(
        check(r.says, when, facts)
        for r, when in zip(skill.card.risk, skill.risks, strict=True)
        if when is not None
    )
    return Choice(skill, edit, kernel, checks, risks, ready)


def _first_new(
    ranked: Ranked, state: ProposerState, line: Line, considered: Considered, trail: list[str]
) -> Proposal | None:
    """The first point of a card's grid that gives a source nobody has gated."""
    choice, facts = ranked.choice, considered.facts
    name = f"{choice.skill.card.id} on {choice.kernel}"
    trials = line.trials(choice.skill.card.id, choice.kernel, state.library)
    last = ""
    grid = choice.skill.card.carrier.grid
    source = choice.prepared.source if choice.prepared else state.source
    for anchor in choice.edit.anchors(source, choice.kernel):
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
                applied = choice.edit.apply(source, choice.kernel, parameters)
            except EditRefused as refusal:
                last = refusal.why
                continue
            if normalized_sha256(applied.source) in line.seen:
                last = "every value left gives a source that was tried"
                continue
            policy = structs.replace(
                considered.record, chosen_by=ranked.ruling.case_at(ranked.case)
            )
            plan = _plan(ranked, anchor, point, here, facts)
            chosen = (*told(policy), *trail, ranked.says, f"{name}: chosen")
            plan = structs.replace(plan, policy=policy, trail=chosen)
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
    ranked: Ranked,
    anchor: Anchor,
    point: Point,
    trials: tuple[Tried, ...],
    facts: Mapping[str, Fact],
) -> Plan:
    choice = ranked.choice
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
        first=choice.prepared.first if choice.prepared else (),
        checks=choice.checks,
        risks=choice.risks,
        bottleneck=bottleneck if isinstance(bottleneck, str) else "",
        expected="; ".join(_expected(card.effect)),
        reason=_reason(ranked, anchor, point, trials),
    )


def _expected(effects: tuple[Effect, ...]) -> Iterator[str]:
    for effect in effects:
        if effect.direction == "same":
            yield f"{effect.metric} the same"
            continue
        ends = [f"{end:g}x" for end in (effect.low, effect.high) if end is not None]
        yield f"{effect.metric} {effect.direction} {' to '.join(ends)}".strip()


def _reason(ranked: Ranked, anchor: Anchor, point: Point, trials: tuple[Tried, ...]) -> str:
    """Why this card and these values now, in a sentence."""
    choice = ranked.choice
    wanted = ", ".join(f"{name} {value}" for name, value in point.items())
    if trials and trials[-1].accepted:
        speed = trials[-1].speed
        gain = "" if speed is None else f" ({speed:.2f}x)"
        said = f"it helped last time{gain}; now {wanted}" if wanted else f"it helped{gain}; again"
    elif trials:
        said = f"other values did not help; now {wanted}"
    else:
        said = (
            f"{ranked.ruling.case_at(ranked.case)}; the first card there that fits: {anchor.says}"
        )
    if choice.prepared:
        said = f"{said}; with {', '.join(choice.prepared.first)}, which it requires"
    if ranked.pinned:
        said = f"pinned by you; {said}"
    unknown = [c.because for c in choice.checks if c.truth is Truth.UNKNOWN]
    if unknown:
        said += f"; no card is left whose conditions are all known ({unknown[0]})"
    risky = [r.says for r in choice.risks if r.truth is Truth.YES]
    if risky:
        said += f"; at a risk: {risky[0]}"
    return f"{said}; a draft: no recorded transition of it was kept" if ranked.draft else said
