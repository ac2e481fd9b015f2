"""Draws why a step was chosen: what the policy saw, how it decided, what it passed over."""

from collections.abc import Iterable

from textual.content import Content

from workbench.skills.records import Plan, PolicyRecord, Truth
from workbench.tui.draw import line, wrapped
from workbench.tui.look import Look
from workbench.tui.panes.card import check_in_full, limit_of
from workbench.tui.panes.told import told
from workbench.tui.scene import Scene

RANKED = 8
"""Cards of the ranking that are shown; the record has them all."""


def why_lines(scene: Scene, width: int) -> list[Content]:
    """The reasons for the selected version, from its record alone."""
    plan, look = scene.plan, scene.look
    if plan is None:
        origin = scene.record.origin if scene.record is not None else "no plan is known"
        return [line(f" {origin}"), line((" nothing was chosen: there is no plan", look.faint))]
    lines = told("why", plan.reason, look, width) + told("expect", plan.expected, look, width)
    lines += told("limit", limit_of(plan), look, width)
    lines += _section("What the policy saw", _saw(plan), look, width)
    lines += _conditions(plan, look, width)
    lines += _section("Ranking of the cards that fit", _ranking(plan), look, width)
    lines += _section("Passed over", passed_over(plan), look, width)
    return lines


def policy_lines(record: PolicyRecord) -> tuple[str, ...]:
    """The record in words."""
    # Imported when needed, so that the first frame does not wait for it.
    from workbench.skills.policy import told as says

    return says(record)


def _saw(plan: Plan) -> Iterable[str]:
    if plan.policy is None:
        return ()
    held = (
        f"{check.says} [{check.because}]"
        for check in plan.policy.predicates
        if check.truth is Truth.YES
    )
    return (*policy_lines(plan.policy), *held)


def _ranking(plan: Plan) -> Iterable[str]:
    ranking = plan.policy.ranking if plan.policy is not None else ()
    for place, text in enumerate(ranking[:RANKED], start=1):
        yield f"{place}. {text}"
    if len(ranking) > RANKED:
        yield f"and {len(ranking) - RANKED} more"


def passed_over(plan: Plan) -> tuple[str, ...]:
    """The trail without what the policy's record says already."""
    if plan.policy is None:
        return plan.trail
    known = {*policy_lines(plan.policy), *plan.policy.ranking}
    return tuple(step for step in plan.trail if step not in known)


def _conditions(plan: Plan, look: Look, width: int) -> list[Content]:
    checks = [*plan.checks, *(risk for risk in plan.risks if risk.truth is not Truth.NO)]
    if not checks:
        return []
    lines = _head("Conditions and risks", look)
    for check in checks:
        lines += check_in_full(check, look, width)
    return lines


def _head(title: str, look: Look) -> list[Content]:
    return [line(""), line((f" {title}", f"bold {look.accent}"))]


def _section(title: str, texts: Iterable[str], look: Look, width: int) -> list[Content]:
    lines = [
        line(("   " if index else " · "), part)
        for text in texts
        for index, part in enumerate(wrapped(text, width - 4))
    ]
    return [*_head(title, look), *lines] if lines else []
