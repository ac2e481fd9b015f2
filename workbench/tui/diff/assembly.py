"""Colours TTGIR, PTX and SASS by the theme: operations, names, labels, types, numbers, comments."""

import re
from collections.abc import Sequence

from textual.content import Content, Span

from workbench.tui.look import Look

_COMMENT = r"(?P<comment>//.*$)"
_NUMBER = r"(?P<number>\b0[xfd][0-9a-fA-F]+\b|(?<![\w.])-?\d[\d.]*(?:e[+-]?\d+)?\b)"
_TOKENS = {
    "ttgir": re.compile(
        rf'{_COMMENT}|(?P<text>"[^"]*")|(?P<name>%[\w$.-]+\'?)|(?P<place>#\w+\'?)'
        r"|(?P<does>\b(?:tt|ttg|ttng|nvws|arith|math|scf|cf|gpu|ub)\.[\w.]+|\bmodule\b)"
        rf"|(?P<type>!?\b(?:tensor|memdesc)\b|!tt\.\w+|\b[fiu]\d+\b|\bbf16\b)|{_NUMBER}"
    ),
    "ptx": re.compile(
        rf'{_COMMENT}|(?P<text>"[^"]*")|(?P<place>\$L\w+\'?:?)|(?P<name>%[\w.]+\'?)'
        rf"|(?P<does>(?<=\t)(?:@!?%p[\d_]+'?\s+)?[a-z]\w*)|(?P<type>\.[a-z]\w*)|{_NUMBER}"
    ),
    "sass": re.compile(
        rf"{_COMMENT}|(?P<place>\.L_x_\d+'?:?)|(?P<name>\b(?:UR|R|UP|P|B|SB)\d+\b'?)"
        rf"|(?P<does>^\s*(?:/\*[0-9a-f]+\*/\s*)?(?:@!?U?P\w+'?\s+)?[A-Z][A-Z0-9]+)"
        rf"|(?P<type>\.[A-Z]\w*)|{_NUMBER}"
    ),
}


def _styles(look: Look) -> dict[str, str]:
    if look.mono:
        return {"does": "bold", "comment": "dim"}
    return {
        "does": look.accent,
        "name": look.primary,
        "place": look.lanes[1],
        "type": look.muted,
        "text": look.good,
        "number": look.lanes[2],
        "comment": f"italic {look.muted}",
    }


def coloured(lines: Sequence[str], look: Look, level: str) -> list[Content]:
    """The lines with styles and unchanged text. Raises KeyError for an unknown `level`."""
    tokens, styles = _TOKENS[level], _styles(look)

    def spans(line: str) -> list[Span]:
        found = ((token, styles.get(token.lastgroup or "", "")) for token in tokens.finditer(line))
        return [Span(*token.span(), style) for token, style in found if style]

    return [Content(line, spans=spans(line)) for line in lines]
