"""Where Python or Triton would read a file's text otherwise than its syntax tree says."""

import ast
import codecs
import io
import re

_DECLARED = re.compile(r"coding[:=][ \t]*([-\w.]+)")
_DEFINES = re.compile(r"\s*def\s")


def foreign_encoding(source: str) -> str:
    """The encoding other than UTF-8 that a comment of the first lines declares; empty if none.

    Python reads the file by it: what is a comment in UTF-8 may be code then.
    """
    lines = [*source.split("\n", 2)[:2], *_lines(source[:4096])[:2]]
    comments = (one for one in lines if one.lstrip("\ufeff \t\f").startswith("#"))
    for name in (found for one in comments for found in _DECLARED.findall(one)):
        try:
            if codecs.lookup(name).name == "utf-8":
                continue
        except LookupError:
            pass
        return str(name)
    return ""


def hidden_definition(kernel: ast.FunctionDef, source: str) -> int | None:
    """The line of a kernel's text that looks like a definition and is none; None without.

    Triton takes the first (compiling) or last (interpreting) line that begins with `def` for the
    kernel's beginning, also within a string.
    """
    first = min([kernel.lineno, *(one.lineno for one in kernel.decorator_list)])
    block = _lines(source)[first - 1 : kernel.end_lineno]
    places = [first + n for n, line in enumerate(block) if _DEFINES.match(line)]
    return next((place for place in places if place != kernel.lineno), None)


def _lines(source: str) -> list[str]:
    return io.StringIO(source, newline=None).readlines()
