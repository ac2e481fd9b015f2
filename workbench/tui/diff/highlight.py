"""Colours Python code by the theme, line by line; pygments is loaded on first use."""

from collections.abc import Sequence

from textual.content import Content, Span

from workbench.tui.look import Look


def _styles(look: Look) -> dict[str, str]:
    """Style by the name of a pygments token, or of one of its ancestors."""
    if look.mono:
        return {"Keyword": "bold", "Comment": "dim", "Literal.String.Doc": "dim"}
    string, number = look.good, look.lanes[2]
    return {
        "Keyword": look.accent,
        "Operator.Word": look.accent,
        "Name.Builtin": look.lanes[1],
        "Name.Function": look.primary,
        "Name.Class": look.primary,
        "Name.Decorator": look.primary,
        "Literal.String": string,
        "Literal.String.Doc": look.muted,
        "Literal.Number": number,
        "Comment": f"italic {look.muted}",
    }


def warm() -> None:
    """Load pygments and its lexer; a thread does so after the first paint."""
    highlighted(["x = 1"], Look())


def highlighted(lines: Sequence[str], look: Look) -> list[Content]:
    """The lines with styles and unchanged text."""
    from pygments.lexers.python import PythonLexer  # type: ignore[import-untyped] # ships none

    styles = _styles(look)
    spans: list[list[Span]] = [[] for _ in lines]
    row = column = 0
    lexer = PythonLexer(stripnl=False, ensurenl=True)
    for token, text in lexer.get_tokens("\n".join(lines)):
        style = _style_of(str(token).removeprefix("Token."), styles)
        for index, piece in enumerate(text.split("\n")):
            if index:
                row, column = row + 1, 0
            if piece and style and row < len(lines):
                spans[row].append(Span(column, column + len(piece), style))
            column += len(piece)
    return [Content(text, spans=found) for text, found in zip(lines, spans, strict=True)]


def _style_of(token: str, styles: dict[str, str]) -> str:
    while token:
        if token in styles:
            return styles[token]
        token = token.rpartition(".")[0]
    return ""
