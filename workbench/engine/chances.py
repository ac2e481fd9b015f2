"""Finds the grounds on which a card has something to do, and says of every other why it has not."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct, structs

from workbench.engine.grounds import AFTER, Ground, forms, ground_of
from workbench.errors import WorkbenchError
from workbench.gate.records import GateReport
from workbench.kernels.source import normalized_sha256, read_source
from workbench.kernels.target import target
from workbench.lineage.removals import removable
from workbench.lineage.sketch import needed, operations
from workbench.problems.load import load_problem, shipped_problems
from workbench.search.proposer import propose
from workbench.search.records import NoProposal, Proposal, ProposerState, Tried
from workbench.skills.card import Skill
from workbench.skills.library import Library
from workbench.skills.records import Carrier, Parameter, Plan


class Chance(Struct, frozen=True, kw_only=True):
    """A card on a ground where it has something to do."""

    skill: Skill
    """The card, without values that do not apply there."""
    ground: Ground
    step: Proposal | None
    """What the card makes of it, as far as the text shows; None where a model will write it."""


class Passed(NamedTuple):
    """A ground that a card has nothing to do on."""

    ground: str
    why: str


class Chances(Struct, frozen=True, kw_only=True):
    """Where a card can be tried on problems that it has no evidence from."""

    found: tuple[Chance, ...]
    """Those of the families that it was seen in first, then one of each problem before another of
    any."""
    passed: tuple[Passed, ...]


class Finder:
    """Looks for chances in the shipped kernels, and in what `providers` make of them."""

    def __init__(self, providers: Iterable[Skill] = ()) -> None:
        self._providers = tuple(providers)
        self._made: dict[str, tuple[Ground, ...]] = {}

    def chances(self, skill: Skill) -> Chances:
        """Where a card can be tried; text alone is read.

        Where it has a place in no kernel as that is shipped, those are asked in which another card
        has made its step: three counts are there only once two bits are looked at a time.
        """
        plain = self._among(skill, ((name, forms(name)) for name in self._held_out(skill)))
        if plain.found or skill.edit is None:
            return plain
        after = self._among(
            skill, ((name, self._prepared(skill, name)) for name in self._held_out(skill))
        )
        return Chances(found=after.found, passed=plain.passed)

    def _held_out(self, skill: Skill) -> list[str]:
        tried = {row.problem for row in skill.card.evidence}
        return [name for name in shipped_problems() if name not in tried]

    def _among(self, skill: Skill, grounds: Iterable[tuple[str, Sequence[Ground]]]) -> Chances:
        found: list[tuple[tuple[bool, int, str], Chance]] = []
        passed: list[Passed] = []
        for name, here in grounds:
            family = load_problem(name).family
            for place, ground in enumerate(here):
                one = chance_of(skill, ground, family, self._providers)
                if isinstance(one, str):
                    passed.append(Passed(ground.name, one))
                else:
                    strange = family not in skill.card.scope.families
                    found.append(((strange, place, name), one))
        found.sort(key=lambda row: row[0])
        return Chances(found=tuple(one for _, one in found), passed=tuple(passed))

    def _prepared(self, skill: Skill, problem: str) -> list[Ground]:
        """What other cards make of a problem's kernels, where this one then finds its form."""
        if problem not in self._made:
            self._made[problem] = tuple(self._make(problem))
        return [
            ground
            for ground in self._made[problem]
            if not ground.form.endswith(f"{AFTER}{skill.card.id}") and not _formless(skill, ground)
        ]

    def _make(self, problem: str) -> Iterator[Ground]:
        family = load_problem(problem).family
        for ground in forms(problem):
            for one in self._providers:
                made = chance_of(one, ground, family, self._providers)
                if isinstance(made, Chance) and made.step is not None:
                    yield _after(ground, one, made.step)


def _after(ground: Ground, skill: Skill, step: Proposal) -> Ground:
    form = f"{ground.form}{AFTER}{skill.card.id}"
    return Ground(problem=ground.problem, form=form, source=step.source)


def _formless(skill: Skill, ground: Ground) -> str:
    """Why a card's edit finds its form nowhere in a ground; empty where it does."""
    edit, source = skill.edit, ground.source
    if edit is None:
        return "no edit carries it"
    why = [edit.refusal(source, kernel) for kernel in read_source(source).launched]
    return "; ".join(dict.fromkeys(why)) if all(why) else ""


def ground_named(name: str, providers: Iterable[Skill] = ()) -> Ground:
    """The ground of a name, with the steps of the cards that stand in it.

    Raises WorkbenchError for a problem or form that is not shipped, or a card that is not among the
    `providers` or has nothing to do there.
    """
    providers = tuple(providers)
    shipped, *cards = name.split(AFTER)
    ground, library = ground_of(shipped), Library({one.card.id: one for one in providers})
    for card in cards:
        skill = library.skill(card)
        made = chance_of(skill, ground, load_problem(ground.problem).family, providers)
        if isinstance(made, str) or made.step is None:
            why = made if isinstance(made, str) else "a model writes its step"
            raise WorkbenchError(f"{card} makes nothing of {ground.name}: {why}", where=name)
        ground = _after(ground, skill, made.step)
    return ground


def chance_of(
    skill: Skill,
    ground: Ground,
    family: str,
    providers: Iterable[Skill] = (),
    report: GateReport | None = None,
) -> Chance | str:
    """What a card would do to a kernel, or why that is nothing: as far as its text tells and, where
    there is a `report` on it, what its compiled form says.

    Of a sketch only its first operations can be checked: the ground has to contain them all.
    """
    if skill.edit is None:
        wanted = needed(skill.card.carrier.sketch)
        lacks = sorted(wanted.keys() - operations(ground.source).keys())
        if lacks or not wanted:
            return f"it lacks {', '.join(lacks)} of the sketch" if lacks else "the sketch is empty"
        return Chance(skill=skill, ground=ground, step=None)
    skill = nearest(skill, ground.problem, family)
    free = _needing(skill, ground)
    # Text is asked first: what has not the edit's form needs no facts.
    if not free.card.requires and (why := _formless(free, ground)):
        return why
    less, made = _narrowed(free, ground, family, tuple(providers), report)
    if isinstance(made, NoProposal) and less.card.carrier != skill.card.carrier:
        return "no value is left that goes the way of the recorded steps"
    if isinstance(made, NoProposal):
        return _refusal(skill, made)
    return Chance(skill=less, ground=ground, step=made)


def _needing(skill: Skill, ground: Ground) -> Skill:
    """The card without requirements that the kernel meets as it is."""
    if not skill.card.requires:
        return skill
    there = {inverse.category for inverse, _, _ in removable(ground.source)}
    left = tuple(one for one in skill.card.requires if one not in there)
    return structs.replace(skill, card=structs.replace(skill.card, requires=left))


def _refusal(skill: Skill, made: NoProposal) -> str:
    """The proposer's own reasons against this card, each once, whatever kernels they are of."""
    why = []
    for line in made.trail:
        head, _, reason = line.partition(": ")
        if head.startswith(f"{skill.card.id} on "):
            why.append(_judged_by(skill, reason))
    return "; ".join(dict.fromkeys(why)) or made.reason


def _judged_by(skill: Skill, reason: str) -> str:
    """A reason; that of a condition with its text, in which the facts are named."""
    for one in skill.card.precondition:
        if reason.startswith(f"{one.says}: "):
            return (
                f"`{one.when}` does not hold, {reason.removeprefix(f'{one.says}: ')} ({one.says})"
            )
    return reason


def alone(skill: Skill, providers: Iterable[Skill] = ()) -> Library:
    """A library of one card, asked for, since drafts are not chosen otherwise.

    Of its scope only the platforms count: whether it holds in another family is the question. What
    it requires is put in by `providers`; without any of them it must do without.
    """
    needs = set(skill.card.requires)
    others = [_anywhere(one) for one in providers if needs & set(one.card.provides)]
    given = {feature for one in others for feature in one.card.provides}
    requires = skill.card.requires if needs <= given else ()
    freed = _anywhere(skill)
    freed = structs.replace(freed, card=structs.replace(freed.card, requires=requires))
    skills = {one.card.id: one for one in (*(others if requires else ()), freed)}
    return Library(skills, pinned=frozenset({skill.card.id}))


def nearest(skill: Skill, problem: str, family: str) -> Skill:
    """The card with those of its values first that were kept with a problem, then those of its
    family: one that was seen in several places knows which value goes where."""
    kept = [row for row in skill.card.evidence if row.verdict == "accepted"]
    near = [row.parameters for row in kept if row.problem == problem]
    near += [row.parameters for row in kept if family and row.family == family]
    grid = {
        name: tuple(
            dict.fromkeys((*(row[name] for row in near if row.get(name) in values), *values))
        )
        for name, values in skill.card.carrier.grid.items()
    }
    carrier = structs.replace(skill.card.carrier, grid=grid)
    return structs.replace(skill, card=structs.replace(skill.card, carrier=carrier))


def _anywhere(skill: Skill) -> Skill:
    scope = structs.replace(skill.card.scope, families=("*",), after=(), not_after=())
    return structs.replace(skill, card=structs.replace(skill.card, scope=scope))


def _narrowed(
    skill: Skill,
    ground: Ground,
    family: str,
    providers: Sequence[Skill],
    report: GateReport | None,
) -> tuple[Skill, Proposal | NoProposal]:
    """The card without values that would go another way than in every recorded step, and its step:
    a trial of fewer stages is none of a card that was seen to need more. A card that has no other
    value left there has no edit either."""
    while True:
        made = _proposed(skill, ground, family, providers, report)
        wrong = None if isinstance(made, NoProposal) else _another_way(skill, made.plan)
        if wrong is None:
            return skill, made
        skill = without(skill, *wrong)
        if skill.edit is None:
            return skill, NoProposal(reason="no value is left")


def without(skill: Skill, name: str, value: Parameter) -> Skill:
    """The card without one value of its edit; without an edit where no other is left."""
    usual = {one.name: one.grid for one in skill.edit.parameters} if skill.edit else {}
    grid = dict(skill.card.carrier.grid)
    grid[name] = tuple(one for one in grid.get(name, usual.get(name, ())) if one != value)
    # What is worked out from facts is not a value of the grid that could be left out.
    kept = grid[name] and grid != skill.card.carrier.grid
    carrier = structs.replace(skill.card.carrier, grid=grid) if kept else Carrier()
    return structs.replace(skill, card=structs.replace(skill.card, carrier=carrier))


def _another_way(skill: Skill, plan: Plan) -> tuple[str, Parameter] | None:
    """The first number of a step that goes up where every recorded one went down, or the reverse,
    with its value."""
    for name, value in plan.parameters.items():
        seen = {
            _way(row.was.get(name), row.parameters.get(name))
            for row in skill.card.evidence
            if row.verdict == "accepted"
        } - {0}
        if seen and (way := _way(plan.was.get(name), value)) and way not in seen:
            return name, value
    return None


def _way(before: Parameter | None, after: Parameter | None) -> int:
    """1 for up, -1 for down, 0 where it is neither or not known."""
    if not isinstance(before, int | float) or not isinstance(after, int | float):
        return 0
    return (after > before) - (after < before)


def _proposed(
    skill: Skill,
    ground: Ground,
    family: str,
    providers: Sequence[Skill],
    report: GateReport | None,
) -> Proposal | NoProposal:
    platforms = [one for one in skill.card.scope.platforms if one != "*"]
    start = Tried(number=0, parent=None, sha256=normalized_sha256(ground.source), accepted=True)
    return propose(
        ProposerState(
            source=ground.source,
            number=0,
            library=alone(skill, providers),
            target=target(platforms[0] if platforms else "sm90"),
            family=family,
            launches=() if report is None else report.launches,
            traces=() if report is None else report.traces,
            history=(start,),
        )
    )
