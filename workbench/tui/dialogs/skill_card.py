"""Draws one skill's card: scope, conditions, effects, risks, evidence."""

from collections.abc import Callable

from textual.content import Content

from workbench.skills.card import Skill
from workbench.skills.records import EvidenceRow
from workbench.tui.dialogs.text import TextBox
from workbench.tui.draw import line, wrapped
from workbench.tui.look import Look
from workbench.tui.panes.told import told
from workbench.tui.scene import Scene


def card_box(skill: Skill, said: str, scene: Scene) -> TextBox:
    """A box with the card over the screen; `said` is `disabled`, `pinned` or empty."""
    return TextBox(skill.card.id, f"esc closes   {skill.path}", card_lines(skill, said), scene)


def card_lines(skill: Skill, said: str) -> Callable[[Scene, int], list[Content]]:
    """A function that draws the card; `said` is `disabled`, `pinned` or empty."""

    def draw(scene: Scene, width: int) -> list[Content]:
        return _lines(skill, said, scene.look, width)

    return draw


def _lines(skill: Skill, said: str, look: Look, width: int) -> list[Content]:
    card, scope = skill.card, skill.card.scope
    lines = [line((f" {card.title}", "bold"))]
    lines += told("intent", card.intent, look, width)
    stands = f"{skill.standing}, {skill.origin}{f', {said} by you' if said else ''}"
    lines += told("stands", stands, look, width)
    where = f"{', '.join(scope.families)} on {', '.join(scope.platforms)}"
    after = f"; after {', '.join(scope.after)}" if scope.after else ""
    lines += told("scope", where + after, look, width)
    lines += told("finds", card.anchor, look, width)
    grid = "; ".join(f"{name} {list(values)}" for name, values in card.carrier.grid.items())
    how = f"edit {card.carrier.edit}" + (f": {grid}" if grid else "")
    lines += told("how", how if card.carrier.edit else "a sketch for a model", look, width)
    for label, names in (("needs", card.requires), ("gives", card.provides)):
        lines += told(label, ", ".join(names), look, width)
    for known in card.precondition:
        lines += told("when", f"{known.says}  [{known.when}]", look, width)
    for effect in card.effect:
        ends = [f"{end:g}x" for end in (effect.low, effect.high) if end is not None]
        lines += told(
            "effect", f"{effect.metric} {effect.direction} {' to '.join(ends)}", look, width
        )
    for risk in card.risk:
        lines += told("risk", f"{risk.says}  [{risk.when or 'always'}]", look, width)
    for row in card.evidence:
        lines += told("seen", _evidence(row), look, width)
    for trial in card.admission:
        held = "held out" if trial.held_out else "not held out"
        lines += told("trial", f"{trial.target}, {held}: {_answer(trial.accepted)}", look, width)
    if card.carrier.sketch:
        lines += [line(""), line((" sketch", look.muted))]
        rows = card.carrier.sketch.splitlines()
        lines += [line(f"   {part}") for row in rows for part in wrapped(row, width - 4) or [""]]
    return lines


def _answer(accepted: bool) -> str:
    return "accepted" if accepted else "rejected"


def _evidence(row: EvidenceRow) -> str:
    speed = f"{row.ratio:.3f}x {row.kind}" if row.ratio else "not timed"
    return (
        f"{row.verdict} {speed}, {row.problem or row.session} on {row.device} {row.says}".rstrip()
    )
