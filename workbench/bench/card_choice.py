"""Which card is tried on which kernel: what promises most first, then cards without evidence."""

from collections.abc import Collection, Sequence

from msgspec import Struct, structs

from workbench.bench.card_firsts import firsts_of, pinned
from workbench.bench.card_needs import Need, has_place
from workbench.bench.card_states import State
from workbench.bench.card_trials import Trial
from workbench.engine.devices import Place
from workbench.gate.records import Verdict
from workbench.kernels.records import Launch, LaunchTrace
from workbench.kernels.source import normalized_sha256
from workbench.kernels.target import target as known_target
from workbench.measure.records import Time
from workbench.problems.records import Problem, WorkFloor
from workbench.search.line import line_of
from workbench.search.proposer import consider, propose
from workbench.search.records import Proposal, ProposerState, Tried
from workbench.skills.card import Skill
from workbench.skills.library import Library
from workbench.skills.records import Truth

_FACTS = ("code.", "launch.", "static.", "loop.", "arg.", "trace.", "profile.", "problem.")
"""Groups of facts that a trial records; device and history are recorded anyway."""


class Base(Struct, frozen=True, kw_only=True):
    """A state with the results of compiling and tracing it."""

    problem: Problem
    state: State
    launches: tuple[Launch, ...]
    traces: tuple[LaunchTrace, ...]
    time: Time | None
    """Modeled."""
    floor: WorkFloor | None


class Wanted(Struct, frozen=True, kw_only=True):
    """A candidate to judge; its trial has no verdict yet."""

    problem: Problem
    trial: Trial
    parent_time: Time | None = None
    """Modeled time of the kernel it was made from."""


class Chosen(Struct, frozen=True, kw_only=True):
    """The candidates to judge, and the cards that apply to no kernel."""

    wanted: tuple[Wanted, ...]
    nowhere: dict[str, str]
    """Why, by card: what it lacks on the kernel that comes closest."""


def choose(bases: Sequence[Base], needs: Sequence[Need], place: Place) -> Chosen:
    """Candidates: those that promise most (`card_firsts`); then one for every card, cards with the
    least evidence first, then a second for each.

    Of the states that a card fits, one per problem is taken: those made for the card first, then
    new problems. Cards without any evidence go first, then those tried on fewer problems; among
    equals, kernels that move fewer bytes.
    """
    skills = {need.skill.card.id: need.skill for need in needs}
    free = Library(skills, pinned=frozenset(skills))
    fits, against = _fits(bases, free, place)
    ahead = _ahead(bases, needs, free, place)
    rows: list[tuple[tuple[int, bool, int, float, int], Wanted]] = []
    nowhere: dict[str, str] = {}
    for need in needs:
        card = need.skill.card
        before = {one.problem.name for one in ahead if one.trial.card == card.id}
        made = _made(need, fits.get(card.id, ()), free, place, before)
        if not made and not before and card.id not in fits:
            placed = any(has_place(need.skill, base.state.source) for base in bases)
            why = against.get(card.id, "") if placed else ""
            nowhere[card.id] = why or "no kernel has a place for its edit"
        for turn, (moved, one) in enumerate(made, start=len(before)):
            rows.append(((turn, need.kept, len(need.tried), moved, card.order), one))
    ordered = [one for _, one in sorted(rows, key=lambda row: row[0])]
    return Chosen(wanted=(*ahead, *ordered), nowhere=nowhere)


def _ahead(
    bases: Sequence[Base], needs: Sequence[Need], free: Library, place: Place
) -> tuple[Wanted, ...]:
    """The most promising trials whose result is not in the card already, in their order."""
    known = {(base.problem.name, base.state.name): base for base in bases}
    asked = {need.skill.card.id: need for need in needs}
    found = []
    for first in firsts_of(asked):
        need, base = asked[first.card], known.get((first.problem, first.state))
        if base is None or first.problem in need.done:
            continue
        one = _proposed(pinned(need.skill, first), base, free, place)
        if one is not None and not _judged(need, one.trial, place):
            found.append(one)
    return tuple(found)


def _judged(need: Need, trial: Trial, place: Place) -> bool:
    """Whether a card's evidence holds this very trial, measured where there is a GPU."""
    kinds = {"measured"} if place.index is not None else {"modeled", "measured"}
    name = trial.sha256[:12]
    return any(row.commit == name and row.kind in kinds for row in need.skill.card.evidence)


def _fits(
    bases: Sequence[Base], free: Library, place: Place
) -> tuple[dict[str, list[Base]], dict[str, str]]:
    """Bases that each card fits, by its edit and its conditions, and what speaks against others."""
    found: dict[str, list[Base]] = {}
    against: dict[str, str] = {}
    for base in bases:
        state = _state(base, free, place)
        for kernel in consider(state, line_of(state.history, 0)):
            for ranked in kernel.ranked:
                found.setdefault(ranked.choice.skill.card.id, []).append(base)
            for card, why in kernel.refused.items():
                says = f"{base.problem.name}, {base.state.name}: {why}"
                if card in base.state.cards:
                    against[card] = says
                else:
                    against.setdefault(card, says)
    return found, against


def _made(
    need: Need, bases: Sequence[Base], free: Library, place: Place, before: Collection[str]
) -> list[tuple[float, Wanted]]:
    """Candidates of a card, one of a problem, each with the bytes that its problem has to move:
    first on states made for it, then where it was not tried, none where it is done or comes
    `before`."""
    made: list[tuple[float, Wanted]] = []
    here = {*need.done, *before}

    def place_of(base: Base) -> tuple[bool, bool]:
        return need.skill.card.id not in base.state.cards, base.problem.name in need.tried

    for base in sorted(bases, key=place_of):
        if base.problem.name in here or len(made) + len(before) >= need.most:
            continue
        wanted = _proposed(need.skill, base, free, place)
        if wanted is not None:
            here.add(base.problem.name)
            made.append((base.floor.bytes if base.floor else 0.0, wanted))
    return made


def _proposed(skill: Skill, base: Base, free: Library, place: Place) -> Wanted | None:
    """The card's first parameters on a base."""
    others = frozenset(name for name in free.skills if name != skill.card.id)
    own = structs.replace(free, skills={**free.skills, skill.card.id: skill}, disabled=others)
    state = _state(base, own, place)
    found = propose(state)
    if not isinstance(found, Proposal):
        return None
    plan = found.plan
    (kernel,) = (
        one for one in consider(state, line_of(state.history, 0)) if one.kernel == plan.kernel
    )
    return Wanted(
        problem=base.problem,
        parent_time=base.time,
        trial=Trial(
            card=skill.card.id,
            problem=base.problem.name,
            state=base.state.name,
            family=base.problem.family,
            target=place.target,
            device=place.device,
            kernel=plan.kernel,
            edit=plan.edit,
            parameters=plan.parameters,
            unknown=tuple(c.says for c in plan.checks if c.truth is Truth.UNKNOWN),
            risks=tuple(r.says for r in plan.risks if r.truth is Truth.YES),
            facts={
                name: fact.value
                for name, fact in kernel.facts.items()
                if fact.value is not None and name.startswith(_FACTS)
            },
            verdict=Verdict.UNPROVEN,
            code="",
            says="not judged yet",
            sha256=normalized_sha256(found.source),
            parent=base.state.source,
            source=found.source,
        ),
    )


def _state(base: Base, library: Library, place: Place) -> ProposerState:
    """A session at its seed, which is the base."""
    seed = Tried(number=0, parent=None, sha256="", accepted=True)
    return ProposerState(
        source=base.state.source,
        number=0,
        library=library,
        target=known_target(place.target),
        launches=base.launches,
        traces=base.traces,
        time=base.time,
        family=base.problem.family,
        precision=base.problem.precision.value,
        flops=base.floor.flops if base.floor else None,
        bytes=base.floor.bytes if base.floor else None,
        history=(seed,),
    )
