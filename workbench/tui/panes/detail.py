"""Under the graph: commit, answer, cost and origin of the selected version."""

from textual.content import Content

from workbench.session.records import Transition
from workbench.tui.draw import duration, fit, line
from workbench.tui.look import Look
from workbench.tui.scene import Scene

DETAIL_LINES = 4


def detail(scene: Scene, width: int) -> list[Content]:
    """Under a rule: commit, answer and cost of the selected version."""
    look, version, record = scene.look, scene.version, scene.record
    lines = [line(("─" * width, look.line))]
    if version is None:
        return lines
    parent = f"v{version.parent}" if version.parent is not None else "none"
    lines.append(
        line(
            (f" v{version.number}", "bold"),
            ("  commit ", look.muted), version.commit[:9] or "not yet",
            ("  parent ", look.muted), parent,
        )
    )  # fmt: skip
    if not version.commit:
        return [*lines, line((" still in the gate", look.muted))]
    return lines + (_record_lines(record, look, width) if record is not None else [])


def _record_lines(record: Transition, look: Look, width: int) -> list[Content]:
    decision, cost = record.decision, record.cost
    why = decision.reason or record.gate.says
    spent = [duration(cost.wall_seconds)]
    if cost.gpu_seconds:
        spent.append(f"{cost.gpu_seconds:.1f} GPU-s")
    if cost.usd:
        spent.append(f"${cost.usd:.2f}")
    answer = decision.answer if decision.by == "nobody" else f"{decision.answer} by {decision.by}"
    return [
        line(f" {answer}", (f"  {fit(why, width - len(answer) - 4)}", look.muted)),
        line(
            (" took ", look.muted),
            ", ".join(spent),
            ("  from ", look.muted),
            fit(record.origin, 24),
        ),
    ]
