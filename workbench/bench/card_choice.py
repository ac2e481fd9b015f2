"""Which card is tried on which kernel: those that lack evidence first, each on several problems."""

from collections.abc import Iterable, Sequence

from msgspec import Struct, structs

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
from workbench.skills.evidence import heard
from workbench.skills.library import Library
from workbench.skills.records import Truth

_FACTS = ("code.", "launch.", "static.", "loop.", "arg.", "trace.", "profile.", "problem.")
"""Parts of the catalogue that a trial keeps; device and history are told by it anyway."""


class Base(Struct, frozen=True, kw_only=True):
    """A state with what compiling and tracing it showed."""

    problem: Problem
    state: State
    launches: tuple[Launch, ...]
    traces: tuple[LaunchTrace, ...]
    time: Time | None
    """Modeled."""
    floor: WorkFloor | None


class Wanted(Struct, frozen=True, kw_only=True):
    """A candidate to judge; its trial so far has no verdict that counts."""

    problem: Problem
    trial: Trial
    parent_time: Time | None = None
    """Modeled, of the kernel it was tried on."""


def choose(
    bases: Sequence[Base],
    library: Library,
    place: Place,
    cards: Iterable[str],
    *,
    each: int,
    every: bool,
) -> list[Wanted]:
    """Candidates: the first of every card, those of the poorest before, then the second of each.

    A card is poor that no kept row speaks for, then one that was tried on fewer than `each`
    problems; others are left out unless `every` or a state was made for them. Of the states that
    fit, one of each problem is taken, those made for the card first, then new problems, until the
    card would have been tried on `each`. Among equals what moves fewer bytes is judged sooner.
    """
    only = set(cards)
    kind = "modeled" if place.index is None else "measured"
    skills = [_freed(s) for s in library.skills.values() if s.edit is not None]
    free = Library({s.card.id: s for s in skills}, pinned=frozenset(s.card.id for s in skills))
    fits = _fits(bases, free, place)
    rows: list[tuple[tuple[int, bool, int, float, int], Wanted]] = []
    for skill in skills:
        if only and skill.card.id not in only:
            continue
        known = [row for row in heard(skill.card.evidence) if row.kind in {kind, "measured"}]
        tried = {row.problem for row in known if row.problem}
        kept = any(row.verdict == "accepted" for row in known)
        own = fits.get(skill.card.id, ())
        asked = every or (not kept and any(skill.card.id in b.state.cards for b in own))
        if len(tried) >= each and (kept or place.index is not None) and not asked:
            continue
        # What was kept on a problem need not be tried there again.
        done = tried if kept and not every else set()
        most = each - len(done)
        made = _made(skill, own, free, place, tried, done, most)
        for turn, (moved, one) in enumerate(made):
            rows.append(((turn, kept, len(tried), moved, skill.card.order), one))
    return [one for _, one in sorted(rows, key=lambda row: row[0])]


def _freed(skill: Skill) -> Skill:
    """A card without what it requires of earlier steps: a state has that, or no anchor."""
    scope = structs.replace(skill.card.scope, after=())
    return structs.replace(skill, card=structs.replace(skill.card, scope=scope, requires=()))


def _fits(bases: Sequence[Base], free: Library, place: Place) -> dict[str, list[Base]]:
    """Bases that each card fits, by the text and by the conditions."""
    found: dict[str, list[Base]] = {}
    for base in bases:
        state = _state(base, free, place)
        for kernel in consider(state, line_of(state.history, 0)):
            for ranked in kernel.ranked:
                found.setdefault(ranked.choice.skill.card.id, []).append(base)
    return found


def _made(
    skill: Skill,
    bases: Sequence[Base],
    free: Library,
    place: Place,
    tried: set[str],
    done: set[str],
    most: int,
) -> list[tuple[float, Wanted]]:
    """Candidates of a card on `most` problems at most, each with the bytes that its problem has to
    move: first on states made for it, then where it was not `tried`, none where it is `done`."""
    made: list[tuple[float, Wanted]] = []
    here = set(done)

    def place_of(base: Base) -> tuple[bool, bool]:
        return skill.card.id not in base.state.cards, base.problem.name in tried

    for base in sorted(bases, key=place_of):
        if base.problem.name in here or len(made) >= most:
            continue
        wanted = _proposed(skill, base, free, place)
        if wanted is not None:
            here.add(base.problem.name)
            made.append((base.floor.bytes if base.floor else 0.0, wanted))
    return made


def _proposed(skill: Skill, base: Base, free: Library, place: Place) -> Wanted | None:
    """The card's first point on a base."""
    others = frozenset(name for name in free.skills if name != skill.card.id)
    state = _state(base, structs.replace(free, disabled=others), place)
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
