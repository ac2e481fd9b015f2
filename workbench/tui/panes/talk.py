"""Draws a request to a model: its role, what it thinks, what it answers."""

from textual.content import Content

from workbench.engine.view import Talk
from workbench.tui.draw import line, wrapped
from workbench.tui.look import Look


def talk_lines(talk: Talk, look: Look, width: int) -> list[Content]:
    """The role and model that are asked, then what it has thought and answered."""
    who = f"{talk.role}, {talk.model}" if talk.model else talk.role
    lines = [line((f" {who}", "bold"), ("  asked for ", look.muted), f"v{talk.number}")]
    lines += [line((f" {part}", look.muted)) for part in wrapped(talk.says, width - 2)]
    for label, text, style in (
        ("thinks", talk.reasoning, f"italic {look.muted}"),
        ("says", talk.text, look.text),
    ):
        if text:
            lines += [line(""), line((f" {label}", f"bold {look.accent}"))]
            lines += [
                line((f" {part}", style))
                for row in text.splitlines()
                for part in wrapped(row, width - 2) or [""]
            ]
    return lines
