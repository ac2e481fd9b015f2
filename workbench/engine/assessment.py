"""Everything the workbench can find out about a candidate without a session."""

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, structs

from workbench.engine.counters_file import read_counters
from workbench.errors import WorkbenchError
from workbench.gate import compile as compiling
from workbench.gate import profile
from workbench.gate.candidate import read_candidate
from workbench.gate.problem.inspect import inspect_problem
from workbench.gate.records import Outcome
from workbench.isolation.records import Flavor
from workbench.isolation.workshop import Workshop
from workbench.kernels.records import Fact
from workbench.kernels.source import read_source
from workbench.kernels.target import target as known_target
from workbench.problems.load import load_problem
from workbench.search.line import Line
from workbench.search.proposer import Considered, consider
from workbench.search.records import ProposerState
from workbench.skills.card import Skill
from workbench.skills.conditions import check
from workbench.skills.library import load_library
from workbench.skills.records import Check, PolicyRecord, Truth

_FRESH = Line(steps=(), history=())


class Place(Struct, frozen=True, kw_only=True):
    """Where a card's edit could work."""

    lines: tuple[int, ...]
    """Lines of the file, in order."""
    says: str


class Checked(Struct, frozen=True, kw_only=True):
    """One card against one kernel."""

    card: str
    standing: str
    """`admitted`, `tried` or `draft`; `disabled` or `pinned` where a person said so."""
    says: str
    """Whether it applies, and if not why."""
    checks: tuple[Check, ...]
    risks: tuple[Check, ...]
    places: tuple[Place, ...]
    policy: str
    """Why the policy would pick it now, or would not."""


class Assessment(Struct, frozen=True, kw_only=True):
    """Facts by kernel, what the policy makes of them, and every card checked against them."""

    state: ProposerState
    considered: dict[str, Considered]

    @property
    def facts(self) -> dict[str, dict[str, Fact]]:
        """Facts by kernel."""
        return {name: one.facts for name, one in self.considered.items()}

    def policy(self, kernel: str) -> PolicyRecord:
        """The policy's ruling on a kernel."""
        return self.considered[kernel].record

    def checked(self, kernel: str) -> Iterator[Checked]:
        """Every card with every condition: those that fit in the policy's order, then the others
        in the plain order of techniques."""
        considered = self.considered[kernel]
        fit = {one.choice.skill.card.id: place for place, one in enumerate(considered.ranked)}
        for skill in sorted(
            self.state.library.skills.values(), key=lambda one: fit.get(one.card.id, len(fit))
        ):
            yield self._checked(skill, considered)

    def _checked(self, skill: Skill, considered: Considered) -> Checked:
        card, facts = skill.card, considered.facts
        checks = tuple(
            check(said.says, when, facts, said.category)
            for said, when in zip(card.precondition, skill.preconditions, strict=True)
        )
        risks = tuple(
            check(said.says, when, facts)
            for said, when in zip(card.risk, skill.risks, strict=True)
            if when is not None
        )
        refusal = "needs a model: it is a sketch"
        places: tuple[Place, ...] = ()
        if skill.edit is not None:
            refusal = skill.edit.refusal(self.state.source, considered.kernel)
            anchors = skill.edit.anchors(self.state.source, considered.kernel)
            places = tuple(dict.fromkeys(Place(lines=a.lines, says=a.says) for a in anchors))
        return Checked(
            card=card.id,
            standing=self._standing(skill),
            says=_says(refusal, checks),
            checks=checks,
            risks=risks,
            places=places,
            policy=_policy(card.id, considered),
        )

    def _standing(self, skill: Skill) -> str:
        library, card_id = self.state.library, skill.card.id
        words: list[str] = [skill.standing]
        words += ["pinned"] if card_id in library.pinned else []
        words += ["disabled"] if card_id in library.disabled else []
        return ", ".join(words)


def _policy(card_id: str, considered: Considered) -> str:
    for place, ranked in enumerate(considered.ranked, start=1):
        if ranked.choice.skill.card.id == card_id:
            why = ranked.says.partition(": ")[2]
            return f"{place} of {len(considered.ranked)}: {why}"
    return f"would not pick it: {considered.refused[card_id]}"


def _says(refusal: str, checks: tuple[Check, ...]) -> str:
    if refusal:
        return f"no: {refusal}"
    if any(c.truth is Truth.NO for c in checks):
        return "no: a condition does not hold"
    if any(c.truth is Truth.UNKNOWN for c in checks):
        return "perhaps: a condition is unknown"
    return "yes"


def assess(
    candidate: Path, problem: str, target: str, profile_file: Path | None = None
) -> Assessment:
    """Compile and trace a candidate at the full shape, read every fact and ask the policy.

    `profile_file` is what ncu said elsewhere (`counters_file.read_counters`). Nothing is judged.
    Raises WorkbenchError when it does not compile, or for a file or problem that cannot be used.
    """
    counters = None if profile_file is None else read_counters(profile_file)
    state = structs.replace(_recorded(candidate, problem, target), ncu=counters)
    return Assessment(state=state, considered={one.kernel: one for one in consider(state, _FRESH)})


def _recorded(candidate: Path, problem: str, target: str) -> ProposerState:
    loaded = load_problem(problem)
    one = read_candidate(candidate)
    # Told before any worker is started, which takes seconds.
    if fault := read_source(one.source).fault:
        raise WorkbenchError(
            f"the candidate cannot be read as Python: {fault}",
            where=str(candidate),
            todo=f"`workbench gate {candidate} --problem {problem}` says more",
        )
    with Workshop(preload=(*compiling.JOB_MODULES, *profile.JOB_MODULES)) as workshop:
        workshop.warm(Flavor.REFERENCE, Flavor.COMPILE, Flavor.INTERPRET)
        shape = inspect_problem(loaded, workshop).full
        compiled = compiling.run(one, shape, target, workshop)
        if compiled.report.outcome is not Outcome.PASSED:
            raise WorkbenchError(
                f"the candidate does not compile: {compiled.report.says}",
                where=str(candidate),
                todo=f"`workbench gate {candidate} --problem {problem}` says more",
            )
        profiled = profile.run_modeled(
            one, compiled, (shape, shape), target, workshop, parent=None, threshold=1.0
        )
    return ProposerState(
        source=one.source,
        number=0,
        library=load_library(),
        target=known_target(target),
        launches=compiled.launches,
        traces=profiled.traces,
        time=profiled.time,
        family=loaded.family,
        precision=loaded.precision.value,
        flops=shape.work.flops if shape.work else None,
        bytes=shape.work.bytes if shape.work else None,
    )
