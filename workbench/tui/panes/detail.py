"""Details of the selected version under the graph: commit, time, answer, cost, origin."""

from textual.content import Content

from workbench.measure.records import Kind
from workbench.session.records import Transition
from workbench.tui.draw import Part, cells, duration, figure, fit, line, wrapped
from workbench.tui.look import Look
from workbench.tui.scene import Scene

DETAIL_LINES = 4
"""Fewest lines of the details."""
MOST_LINES = 8
"""Most lines of the details, where the graph leaves room for a long reason."""


def detail(scene: Scene, width: int, height: int) -> list[Content]:
    """A rule, then commit and time, answer with its reason, and cost, in `height` lines at most."""
    look, version, record = scene.look, scene.version, scene.record
    lines = [line(("─" * width, look.line))]
    if version is None:
        return lines
    parent = f"v{version.parent}" if version.parent is not None else "none"
    head: list[Part] = [
        (f" v{version.number}", "bold"),
        ("  commit ", look.muted), version.commit[:9] or "not yet",
        ("  parent ", look.muted), parent,
    ]  # fmt: skip
    if version.time is not None:
        tilde = "~" if version.time.kind is Kind.MODELED else ""
        time = f"  {tilde}{figure(version.time.microseconds)} us"
        head += [time] if cells(head) + len(time) <= width else []
    lines.append(line(*head))
    if not version.commit:
        return [*lines, line((" still in the gate", look.muted))]
    return lines + (_record_lines(record, look, width, height) if record is not None else [])


def _record_lines(record: Transition, look: Look, width: int, height: int) -> list[Content]:
    decision, cost = record.decision, record.cost
    answer = decision.answer if decision.by == "nobody" else f"{decision.answer} by {decision.by}"
    why = wrapped(f"{answer}: {decision.reason or record.gate.says}", width - 2)
    room = height - DETAIL_LINES + 1
    if len(why) > room:
        why = [*why[: room - 1], fit(" ".join(why[room - 1 :]), width - 2)]
    first, *rest = why
    spent = [duration(cost.wall_seconds)]
    if cost.gpu_seconds:
        spent.append(f"{cost.gpu_seconds:.1f} GPU-s")
    if cost.usd:
        spent.append(f"${cost.usd:.2f}")
    took: list[Part] = [(" took ", look.muted), ", ".join(spent), ("  from ", look.muted)]
    return [
        line(f" {first[: len(answer)]}", (first[len(answer) :], look.muted)),
        *(line((f" {text}", look.muted)) for text in rest),
        line(*took, fit(record.origin, width - cells(took) - 1)),
    ]
