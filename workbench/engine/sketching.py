"""Carries out a card that is a sketch: a model is given the kernel, the problem and the card."""

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
    """What a model makes of a kernel by the card alone; `wanted` says how fast that is to be.

    The talk is not kept, as the kernel is not: a trial's verdict is. Raises NoWayBackError where
    its replies are of no use or dollars are spent, and WorkbenchError where no model is named.
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
    """Whether a step put in what the card's sketch says; of an edit's step that is known."""
    if step.change is None or not skill.card.carrier.sketch:
        return True
    return carried_out(skill.card.carrier.sketch, *step.change)
