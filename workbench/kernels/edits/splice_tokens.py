"""Tokens, brackets and commas of a span of Python text, as places in its bytes."""

import io
import re
import tokenize
from itertools import accumulate

from workbench.kernels.edits.base import EditRefused

_SKIPPED = frozenset(
    {
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.COMMENT,
        tokenize.ENDMARKER,
        tokenize.INDENT,
        tokenize.DEDENT,
    }
)


def tokens(text: bytes, start: int, end: int) -> list[tuple[str, int, int]]:
    """(text, start, end) of the significant tokens of a span that is one bracketed form."""
    span = text[start:end].decode("utf-8")
    lines = io.StringIO(span, newline="").readlines()
    starts = [0, *accumulate(map(len, lines))]
    # The tokenizer knows a lone carriage return as white space, not as the end of a line.
    plain = iter([re.sub(r"\r$", "\n", line) for line in lines])
    found = []
    # A span may stop in the middle of a statement; what comes before the stop is complete.
    try:
        for token in tokenize.generate_tokens(lambda: next(plain, "")):
            if token.type in _SKIPPED:
                continue
            a = len(span[: starts[token.start[0] - 1] + token.start[1]].encode("utf-8"))
            b = len(span[: starts[token.end[0] - 1] + token.end[1]].encode("utf-8"))
            found.append((token.string, start + a, start + b))
    except (tokenize.TokenError, IndentationError):
        pass
    return found


def closing(text: bytes, start: int, stop: int) -> int:
    """Just behind the parenthesis that closes the first one after `start`.

    Raises EditRefused where none does before `stop`.
    """
    depth = 0
    for word, _, end in tokens(text, start, stop):
        depth += _step(word)
        if word == ")" and depth == 0:
            return end
    raise EditRefused("the signature could not be read")


def pieces(text: bytes, start: int, end: int) -> list[tuple[int, int]]:
    """Spans of the items inside the parenthesis that ends the span, without their commas."""
    found = tokens(text, start, end)
    depth, opened = 0, 0
    for index in range(len(found) - 1, -1, -1):
        depth -= _step(found[index][0])
        if depth == 0:
            opened = index
            break
    items: list[list[tuple[int, int]]] = [[]]
    for word, word_start, word_end in found[opened + 1 : -1]:
        depth += _step(word)
        if word == "," and depth == 0:
            items.append([])
        else:
            items[-1].append((word_start, word_end))
    return [(item[0][0], item[-1][1]) for item in items if item]


def _step(word: str) -> int:
    """What a token does to the depth of brackets."""
    return (word in {"(", "[", "{"}) - (word in {")", "]", "}"})
