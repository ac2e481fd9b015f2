"""From naive to expert in one leap: every retrieved card is carried out, then one verdict is asked.

A trial that asks the gate for every step pays the GPU for each; this one looks at each step on the
CPU path alone (policy, compile, modeled time) and asks for one verdict, the last kernel beside the
expert. KLineage's agents reach a kernel in the same way, from the cards of a
whole lineage (spec C1.5). Modeled times choose between the values of one card, and nothing else.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct, structs

from workbench.engine.measuring import flavors
from workbench.gate.candidate import candidate_of
from workbench.gate.judge import JOB_MODULES, GateSettings, judge
from workbench.gate.problem.inspect import inspect_problem
from workbench.gate.records import GateReport, Verdict
from workbench.isolation.workshop import Workshop
from workbench.kernels.source import normalized_sha256
from workbench.kernels.target import Target
from workbench.problems.records import Problem
from workbench.search.proposer import propose
from workbench.search.records import NoProposal, Proposal, ProposerState, Tried
from workbench.skills.card import Skill
from workbench.skills.library import Library

Look = Callable[[str], GateReport]
"""What the CPU path says of a source: policy, compile, modeled time."""

_VALUES = 3
"""Of one card that are compared by their modeled times; ours."""
_SHAKEN = 15
"""How far, of 100, the cards of a trial after the first change places; ours: lineages of one
mechanism differ by about as much."""


class Ground(Struct, frozen=True, kw_only=True):
    """What a leap stands on."""

    library: Library
    look: Look
    target: Target
    family: str
    precision: str


class Leap(Struct, frozen=True, kw_only=True):
    """Where a leap came to."""

    source: str
    taken: tuple[str, ...]
    """Cards in the order in which they were carried out, with their kernels."""
    tried: int
    """Edits that were made, those that were not kept too."""
    refused: tuple[str, ...]
    """Cards whose kernels the CPU path refused, with its code."""


@contextmanager
def looking(problem: Problem, gpu: Target) -> Iterator[Look]:
    """A look at kernels for a GPU that need not be there; each is asked about once."""
    settings = GateSettings(target=gpu.name, rung=0)
    said: dict[str, GateReport] = {}
    with Workshop(device_index=None, preload=JOB_MODULES) as workshop:
        workshop.warm(*flavors(None))
        facts = inspect_problem(problem, workshop)

        def look(source: str) -> GateReport:
            sha = normalized_sha256(source)
            if sha not in said:
                said[sha] = judge(candidate_of(source), problem, lambda: facts, settings, workshop)
            return said[sha]

        yield look


def leap(ground: Ground, naive: str, number: int, most: int) -> Leap:
    """Carry out the cards from a naive kernel, at most `most` edits; `number` is the trial's.

    The first trial takes the cards in their lineages' order, every other one in an order of its
    own near that.
    """
    source, tried = naive, 0
    taken: list[str] = []
    refused: list[str] = []
    done: set[tuple[str, str]] = set()
    while tried < most:
        step = _step(ground, source, _ordered(ground.library, number), done)
        if step is None:
            break
        card, made = step
        tried += len(made)
        kernel = made[0].plan.kernel
        done.add((card, kernel))
        right = [(p, r) for p in made if (r := ground.look(p.source)).verdict is Verdict.ACCEPTED]
        if not right:
            code = ground.look(made[0].source).code
            refused.append(f"{card} on {kernel} ({code})")
            continue
        source = _fastest(right).source
        taken.append(f"{card} on {kernel}")
    return Leap(source=source, taken=tuple(taken), tried=tried, refused=tuple(refused))


def _fastest(right: Sequence[tuple[Proposal, GateReport]]) -> Proposal:
    """The one with the least modeled time; the first where none has any."""
    timed = [(r.time.microseconds, p) for p, r in right if r.time is not None]
    return min(timed, key=lambda one: one[0])[1] if timed else right[0][0]


def _ordered(library: Library, number: int) -> list[Skill]:
    draw = random.Random(number)  # noqa: S311 -- an order of cards, no secret
    shaken = {i: 0.0 if number == 1 else draw.uniform(-_SHAKEN, _SHAKEN) for i in library.skills}
    return sorted(library.skills.values(), key=lambda s: s.card.order + shaken[s.card.id])


def _step(
    ground: Ground, source: str, cards: list[Skill], done: set[tuple[str, str]]
) -> tuple[str, list[Proposal]] | None:
    """The first card with something to do, and what its values make of the source."""
    for skill in cards:
        made = _made(ground, source, skill, done)
        if made:
            return skill.card.id, made
    return None


def _made(ground: Ground, source: str, skill: Skill, done: set[tuple[str, str]]) -> list[Proposal]:
    """What one card makes of a source: of one kernel, with each of its values."""
    made: list[Proposal] = []
    for single in _singles(skill):
        proposal = _proposed(ground, source, single)
        if isinstance(proposal, NoProposal) or (skill.card.id, proposal.plan.kernel) in done:
            continue
        if not made or proposal.plan.kernel == made[0].plan.kernel:
            made.append(proposal)
    return made


def _singles(skill: Skill) -> Iterator[Skill]:
    """The card with one of its values at a time; every place that it names stays."""
    grid = skill.card.carrier.grid
    open_ones = [name for name, values in grid.items() if len(values) > 1 and name != "block"]
    if not open_ones:
        yield skill
        return
    for value in grid[open_ones[0]][:_VALUES]:
        carrier = structs.replace(skill.card.carrier, grid={**grid, open_ones[0]: (value,)})
        yield structs.replace(skill, card=structs.replace(skill.card, carrier=carrier))


def _proposed(ground: Ground, source: str, skill: Skill) -> Proposal | NoProposal:
    report = ground.look(source)
    card = skill.card.id
    start = Tried(number=0, parent=None, sha256=normalized_sha256(source), accepted=True)
    return propose(
        ProposerState(
            source=source,
            number=0,
            library=Library({card: skill}, pinned=frozenset({card})),
            target=ground.target,
            launches=report.launches,
            traces=report.traces,
            time=report.time,
            family=ground.family,
            precision=ground.precision,
            history=(start,),
        )
    )
