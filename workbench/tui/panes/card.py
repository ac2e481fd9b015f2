"""The pane of the selected version's plan: its card's conditions with evidence, effect, reason."""

from collections.abc import Sequence
from typing import ClassVar

from textual.content import Content

from workbench.session.records import Transition
from workbench.skills.records import Check, Plan, PolicyRecord, Truth
from workbench.tui.draw import Part, cells, fit, line, padded, spread, wrapped
from workbench.tui.look import Look
from workbench.tui.panes.backward import backward_lines
from workbench.tui.panes.base import VersionPane
from workbench.tui.panes.talk import talk_lines
from workbench.tui.panes.told import told
from workbench.tui.scene import Scene

_ORDER = {Truth.NO: 0, Truth.UNKNOWN: 1, Truth.YES: 2}
_IN_FULL_FROM = 14
"""Height from which every condition is shown in full: when zoomed, or alone on the screen."""
RANKED = 3
"""Cards of the ranking that the pane shows."""
_COLUMNS_FROM = 60
"""Width from which evidence has its own column; in narrower panes it is at the right edge."""


class Card(VersionPane):
    """The plan of the selected version; it scrolls."""

    number: ClassVar[int] = 2
    heading: ClassVar[str] = "Card"

    def aside(self, scene: Scene) -> str:
        """The card's id."""
        version = scene.version
        return version.card if version is not None else ""

    def draw(self, scene: Scene, width: int, height: int) -> list[Content]:
        """Title, effect and conditions first, then why, then all the rest."""
        room, talk = width - 1, scene.snapshot.talk
        if (
            talk is not None
            and talk.running
            and scene.record is None
            and talk.number == scene.selected
        ):
            return talk_lines(talk, scene.look, room)[-height:]
        backward = scene.record.backward if scene.record is not None else None
        if scene.record is not None and backward is not None:
            return backward_lines(scene.record, backward, scene.look, room)
        if scene.plan is not None:
            return plan_lines(scene.plan, scene.look, room, height)
        if scene.record is not None:
            return seed_lines(scene.record, scene.look, room)
        if scene.version is None:
            return [line((" the selected version's plan", scene.look.faint))]
        return [line((f" {fit(scene.version.title, room)}", "bold"))]


def plan_lines(plan: Plan, look: Look, width: int, height: int) -> list[Content]:
    """The plan as lines, with a blank line after the head if the essential lines still fit."""
    head = [line((f" {fit(plan.title, width)}", "bold"))]
    if plan.expected:
        head.append(line((" expected ", look.muted), (fit(plan.expected, width - 10), look.good)))
    checks = sorted(plan.checks, key=lambda check: _ORDER[check.truth])
    body = check_lines(checks, look, width)
    if height >= _IN_FULL_FROM:
        body = [text for check in checks for text in check_in_full(check, look, width)]
    body += [_risk(risk, look, width) for risk in plan.risks if risk.truth is not Truth.NO]
    body += told("why", plan.reason, look, width)
    body += told("limit", limit_of(plan), look, width)
    if len(head) + len(body) < height:
        head.append(line(""))
    return [*head, *body, *_rest(plan, look, width)]


def limit_of(plan: Plan) -> str:
    """What holds the kernel back as the policy read it, with its number; else the plan's word."""
    record = plan.policy
    if record is None:
        return plan.bottleneck
    return record.limit_because if record.limit else plan.bottleneck or "unknown"


def _rest(plan: Plan, look: Look, width: int) -> list[Content]:
    """What the card is for, and how it was chosen."""
    values = ", ".join(f"{name}={value}" for name, value in plan.parameters.items())
    how = f"{plan.edit or 'candidate'} on {plan.kernel}" + (f": {values}" if values else "")
    lines = told("edit", how, look, width) + told("intent", plan.intent, look, width)
    if plan.method:
        lines += told("method", plan.method, look, width)
    if plan.policy is not None:
        return lines + _policy(plan.policy, look, width)
    for number, step in enumerate(plan.trail):
        lines += told("choice" if number == 0 else "", step, look, width)
    return lines


def _policy(record: PolicyRecord, look: Look, width: int) -> list[Content]:
    """How the policy read the kernel, and its first choices; `e` shows all of it."""
    read = [
        f"{record.structure or 'structure unknown'}; headroom {record.headroom or 'unknown'}",
        f"{record.bottleneck}: {record.bottleneck_because}" if record.bottleneck else "",
        f"case {record.case}: {record.case_says}" if record.case else "",
        *(f"assumed: {text}" for text in record.defaults),
    ]
    lines: list[Content] = []
    for text in read:
        lines += told("" if lines else "policy", text, look, width)
    for place, text in enumerate(record.ranking[:RANKED], start=1):
        lines += told(f"rank {place}", text, look, width)
    return lines


def sign(truth: Truth, look: Look) -> tuple[str, str]:
    """Mark and style of a three-valued answer."""
    return {
        Truth.YES: ("✓", look.good),
        Truth.NO: ("✗", f"bold {look.bad}"),
        Truth.UNKNOWN: ("?", look.warn),
    }[truth]


def check_lines(checks: Sequence[Check], look: Look, width: int) -> list[Content]:
    """A line for each condition: mark, sentence, evidence, sharing the width as needed."""
    if width < _COLUMNS_FROM:
        return [_narrow(check, look, width) for check in checks]
    said = max((len(check.says) for check in checks), default=0)
    shown = max((len(check.because) for check in checks), default=0)
    column = min(said, max(width * 11 // 20, width - 5 - shown))
    return [_columns(check, look, width, column) for check in checks]


def check_in_full(check: Check, look: Look, width: int) -> list[Content]:
    """Sentence, expression and evidence of one condition, wrapped."""
    mark, style = sign(check.truth, look)
    strong = "bold" if check.truth is Truth.NO else ""
    lines = [line("   ", (part, strong)) for part in wrapped(check.says, width - 3)]
    lines[:1] = [line(" ", (mark, style), " ", (lines[0].plain[3:], strong))] if lines else []
    because = (
        check.because if check.because.startswith(check.when) else f"{check.when}: {check.because}"
    )
    lines += [
        line("     ", (part, _evidence_style(check, look))) for part in wrapped(because, width - 5)
    ]
    return lines


def _evidence_style(check: Check, look: Look) -> str:
    return {Truth.NO: look.bad, Truth.UNKNOWN: look.warn}.get(check.truth, look.muted)


def _columns(check: Check, look: Look, width: int, column: int) -> Content:
    mark, style = sign(check.truth, look)
    evidence = fit(check.because, width - column - 5)
    return line(
        " ", (mark, style), " ",
        (padded(check.says, column), "bold" if check.truth is Truth.NO else ""),
        "  ", (evidence, _evidence_style(check, look)),
    )  # fmt: skip


def _narrow(check: Check, look: Look, width: int) -> Content:
    mark, style = sign(check.truth, look)
    says = fit(check.says, width - 4 - min(len(check.because), width * 2 // 5))
    left: list[Part] = [" ", (mark, style), " ", (says, "bold" if check.truth is Truth.NO else "")]
    room = width - cells(left) - 1
    evidence = fit(check.because, room) if room >= 4 else ""
    return spread(left, [(evidence, _evidence_style(check, look))], width)


def _risk(risk: Check, look: Look, width: int) -> Content:
    style = look.warn if risk.truth is Truth.YES else look.muted
    text = f"risk: {risk.says}" + (f" ({risk.because})" if risk.because else "")
    return line(" ", ("!", f"bold {style}"), f" {fit(text, width - 3)}")


def seed_lines(record: Transition, look: Look, width: int) -> list[Content]:
    """Lines about a version without a plan: its origin and the gate's answer."""
    lines = [line((f" {fit(record.origin or 'no plan', width)}", "bold"))]
    lines += told("gate", record.gate.says, look, width)
    lines += told("reason", record.decision.reason, look, width)
    return lines
