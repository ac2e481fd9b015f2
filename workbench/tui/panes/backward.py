"""Draws a step of a lineage: its mechanism, and the gate's answers to removing and restoring it."""

from textual.content import Content

from workbench.session.records import BackwardStep, Transition
from workbench.tui.draw import fit, line
from workbench.tui.look import Look
from workbench.tui.panes.told import told


def backward_lines(record: Transition, step: BackwardStep, look: Look, width: int) -> list[Content]:
    """Category and place, both verdicts, then the edit that restores the mechanism."""
    title = record.plan.title if record.plan is not None else record.origin
    lines = [line((f" {fit(title, width)}", "bold"))]
    lines += told("what", f"{step.category}: {step.locus}", look, width)
    without = step.predecessor or "the gate was not asked"
    lines += told("out", f"without it: {without}", look, width)
    back = step.roundtrip or "the forward edit was not made"
    lines += told("back", f"put back: {back}{_ratio(step)}", look, width)
    same = "the very text the walk came from" if step.same_text else "another text, gated anew"
    lines += told("text", same if step.forward else "", look, width)
    if record.plan is not None:
        values = ", ".join(f"{name}={value}" for name, value in record.plan.parameters.items())
        how = f"{record.plan.edit} on {record.plan.kernel}" + (f": {values}" if values else "")
        lines += told("edit", how, look, width)
        lines += told("intent", record.plan.intent, look, width)
    lines += told("gate", record.decision.reason or record.gate.says, look, width)
    for name, sha in (("before", step.before), ("after", step.after)):
        lines += told(name, f"kernel {sha[:16]}", look, width)
    return lines


def _ratio(step: BackwardStep) -> str:
    return "" if step.ratio is None else f", {step.ratio:.3f}x the speed of what there was"
