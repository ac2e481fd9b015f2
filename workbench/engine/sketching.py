"""Has a model carry out a card that is a sketch, given the kernel, the problem and the card."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from workbench.agents.roles.remover import About
from workbench.engine.suggesting import Suggesting
from workbench.kernels.target import Target
from workbench.lineage.ideas import Idea
from workbench.lineage.instances import Instance
from workbench.lineage.sketch import carried_out
from workbench.problems.records import Problem
from workbench.session.records import Budget
from workbench.skills.card import Skill
from workbench.skills.library import Library


def by_model(
    skill: Skill,
    source: str,
    problem: Problem,
    gpu: Target,
    *,
    wanted: str,
    usd: float | None,
    warn: Callable[[str], None],
) -> str:
    """The kernel that a model makes with the card alone; `wanted` is its time, for the prompt.

    Neither the exchange nor the kernel is kept, only the trial's verdict. Raises NoWayBackError
    when the replies cannot be used or the dollars are spent, and WorkbenchError when no model is
    configured.
    """
    card = skill.card
    library = Library({card.id: skill})
    idea = Idea(
        category=card.id,
        locus="",
        kernel="",
        says=f"{card.intent} Follow the sketch of this skill",
        source=source,
        by="",
    )
    with tempfile.TemporaryDirectory(prefix="workbench-sketch-") as state:
        ideas = Suggesting(
            Path(state),
            Budget(usd=usd),
            lambda: About(problem=problem, library=library, target=gpu),
            (),
            warn,
        )
        try:
            made, _ = ideas.forward(idea, wanted, 0)
        finally:
            ideas.close()
    return made


def present(skill: Skill, step: Instance) -> bool:
    """Whether a step added what the card's sketch describes; always true for an edit's step."""
    if step.change is None or not skill.card.carrier.sketch:
        return True
    return carried_out(skill.card.carrier.sketch, *step.change)
