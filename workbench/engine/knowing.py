"""Everything the workbench can find out about a candidate without a session."""

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from workbench.errors import WorkbenchError
from workbench.gate import compile as compiling
from workbench.gate import profile
from workbench.gate.candidate import read_candidate
from workbench.gate.problem.inspect import inspect_problem
from workbench.gate.records import Outcome
from workbench.isolation.records import Flavor
from workbench.isolation.workshop import Workshop
from workbench.kernels.facts import read_facts
from workbench.kernels.records import Fact
from workbench.kernels.source import read_source
from workbench.kernels.target import target as known_target
from workbench.problems.load import load_problem
from workbench.search.line import Line
from workbench.search.profile import session_facts
from workbench.search.records import ProposerState
from workbench.skills.conditions import check
from workbench.skills.library import Library, load_library
from workbench.skills.records import Check, Truth


class Checked(Struct, frozen=True, kw_only=True):
    """One card against one kernel."""

    card: str
    says: str
    """Whether it applies, and if not why."""
    checks: tuple[Check, ...]


class Known(Struct, frozen=True, kw_only=True):
    """Facts by kernel, and the cards to hold against them."""

    source: str
    facts: dict[str, dict[str, Fact]]
    library: Library

    def checked(self, kernel: str) -> Iterator[Checked]:
        """Every card with every condition, in the plain order of techniques."""
        for skill in self.library.skills.values():
            pairs = zip(skill.card.precondition, skill.preconditions, strict=True)
            checks = tuple(
                check(said.says, when, self.facts[kernel], said.category) for said, when in pairs
            )
            refusal = skill.edit.refusal(self.source, kernel) if skill.edit else "needs a model"
            yield Checked(card=skill.card.id, says=_says(refusal, checks), checks=checks)


def _says(refusal: str, checks: tuple[Check, ...]) -> str:
    if refusal:
        return f"no: {refusal}"
    if any(c.truth is Truth.NO for c in checks):
        return "no: a condition does not hold"
    if any(c.truth is Truth.UNKNOWN for c in checks):
        return "perhaps: a condition is unknown"
    return "yes"


def know(candidate: Path, problem: str, target: str) -> Known:
    """Compile and trace a candidate at the full shape and read every fact.

    Nothing is judged. Raises WorkbenchError when it does not compile, or for a file or problem that
    cannot be used.
    """
    loaded = load_problem(problem)
    one = read_candidate(candidate)
    with Workshop(preload=(*compiling.JOB_MODULES, *profile.JOB_MODULES)) as workshop:
        workshop.warm(Flavor.REFERENCE, Flavor.COMPILE, Flavor.INTERPRET)
        shape = inspect_problem(loaded, workshop).full
        compiled = compiling.run(one, shape, target, workshop)
        if compiled.report.outcome is not Outcome.PASSED:
            raise WorkbenchError(
                f"the candidate does not compile: {compiled.report.says}", where=str(candidate)
            )
        profiled = profile.run_modeled(
            one, compiled, (shape, shape), target, workshop, parent=None, threshold=1.0
        )
    library = load_library()
    state = ProposerState(
        source=one.source,
        number=0,
        library=library,
        target=known_target(target),
        launches=compiled.launches,
        traces=profiled.traces,
        time=profiled.time,
        family=loaded.family,
        precision=loaded.precision.value,
        flops=shape.work.flops if shape.work else None,
        bytes=shape.work.bytes if shape.work else None,
    )
    about = session_facts(state, Line(steps=(), history=()))
    facts = {
        kernel: read_facts(
            one.source, kernel, compiled.launches, profiled.traces, about, state.target
        )
        for kernel in read_source(one.source).launched
    }
    return Known(source=one.source, facts=facts, library=library)
