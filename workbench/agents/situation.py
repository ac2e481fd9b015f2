"""Everything that the prompts of one step are made from: the same situation, the same prompts."""

import ast
from collections.abc import Sequence

from msgspec import Struct

from workbench.agents.allowed import AllowedSkill, allowed_skills
from workbench.agents.memory import Memory
from workbench.agents.reply_records import Signature
from workbench.measure.records import Speed, Time
from workbench.problems.foreign import parse_python
from workbench.problems.records import Problem
from workbench.search.line import line_of
from workbench.search.proposer import Considered, consider
from workbench.search.records import ProposerState


class Situation(Struct, frozen=True, kw_only=True):
    """The incumbent, what is known of it, what was tried, and what a person said."""

    problem: Problem
    state: ProposerState
    considered: tuple[Considered, ...]
    allowed: tuple[AllowedSkill, ...]
    memory: Memory
    hints: tuple[str, ...] = ()
    versus_seed: Speed | None = None
    reference: Time | None = None
    signature: Signature | None = None

    def facts(self, kernel: str) -> dict[str, "bool | int | float | str | tuple[str, ...]"]:
        """Facts of a kernel whose value is known, by name."""
        return {
            name: fact.value
            for one in self.considered
            if one.kernel == kernel
            for name, fact in one.facts.items()
            if fact.value is not None
        }

    def skill(self, skill: str, kernel: str) -> AllowedSkill | None:
        """What a model may do under this name to this kernel; None when it may not."""
        return next((a for a in self.allowed if a.id == skill and a.kernel == kernel), None)


def situation_of(
    problem: Problem,
    state: ProposerState,
    memory: Memory,
    *,
    hints: Sequence[str] = (),
    versus_seed: Speed | None = None,
    reference: Time | None = None,
) -> Situation:
    """The situation of the next step: facts are read and the policy is asked here."""
    line = line_of(state.history, state.number)
    considered = tuple(consider(state, line))
    return Situation(
        problem=problem,
        state=state,
        considered=considered,
        allowed=allowed_skills(state, line, considered),
        memory=memory,
        hints=tuple(hints),
        versus_seed=versus_seed,
        reference=reference,
        signature=signature_of(problem.source),
    )


def signature_of(source: str) -> Signature | None:
    """The arguments of the problem's Model by name; None where they cannot be read or are open."""
    try:
        tree = parse_python(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == "Model":
            init, forward = _names(node, "__init__"), _names(node, "forward")
            if init is None or forward is None:
                return None
            return Signature(init=init, forward=forward)
    return None


def _names(node: ast.ClassDef, method: str) -> tuple[str, ...] | None:
    for item in node.body:
        if isinstance(item, ast.FunctionDef) and item.name == method:
            arguments = item.args
            if arguments.vararg or arguments.kwarg or arguments.kwonlyargs or arguments.defaults:
                return None
            return tuple(a.arg for a in (*arguments.posonlyargs, *arguments.args)[1:])
    return () if method == "__init__" else None
