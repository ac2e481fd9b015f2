"""Reads files and texts that anybody may have written, within bounds of time, memory and stack."""

import ast
import os
import re
import stat
import tomllib
from pathlib import Path
from typing import Any

_READ_AT_ONCE = 1 << 20

_DOTTED = re.compile(
    r"""(?:
        \. (?: [ \t\f] | \\\r?\n )*+
        [\w\x80-\U0010ffff]++ (?: [ \t\f] | \\\r?\n )*+
    )++""",
    re.VERBOSE,
)
"""Names joined by dots. What is not ASCII counts as part of a name: more than Python admits."""
_MOST_JOINED = 1 << 28
"""Most bytes, ours. Python's parser joins `a.b.c` of an import anew at every dot, so that a name of
200 kB takes 10 GB; the longest honest file stays under half of this."""
_LONGEST_SHOWN = 200
_MOST_DOTS = 1000
"""Most dots in a line of TOML, ours: tomllib's work grows with the square of a key's parts."""


class NotRegular(Exception):
    """There is something at the path, but no regular file; the text says what."""


class TomlFault(ValueError):
    """The text is not TOML, or takes more than it may to read; the text says why."""


def read_regular(path: Path, most: int) -> bytes:
    """At most `most` + 1 bytes of a regular file, so that one too many shows a longer file.

    Waits for nobody: a file of the kernel's that has nothing to say yet is an OSError. Raises
    NotRegular, OSError, and ValueError for a path that cannot be one.
    """
    # Looked at before it is opened, because opening a device may do something.
    _regular(path.stat())
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        _regular(os.fstat(descriptor))
        data = bytearray()
        while len(data) <= most:
            piece = os.read(descriptor, min(_READ_AT_ONCE, most + 1 - len(data)))
            if not piece:
                break
            data += piece
    finally:
        os.close(descriptor)
    return bytes(data)


def _regular(state: os.stat_result) -> None:
    if stat.S_ISDIR(state.st_mode):
        raise NotRegular("a folder")
    if not stat.S_ISREG(state.st_mode):
        raise NotRegular("not a regular file")


def parse_python(source: str) -> ast.Module:
    """As `ast.parse`, but a SyntaxError where dotted names would take memory without bound."""
    runs = ((found.start(), found.end() - found.start()) for found in _DOTTED.finditer(source))
    joined = 0
    for start, length in runs:
        joined += length * length // 2
        if joined > _MOST_JOINED:
            line = source.count("\n", 0, start) + 1
            raise SyntaxError("its dotted names are too long", ("<text>", line, 1, None))
    return ast.parse(source)


def shown(value: object) -> str:
    """A value of a foreign file for an error, cut where it is long."""
    try:
        text = repr(value)
    except ValueError:  # Python prints no integer of thousands of digits
        text = "a number of thousands of digits"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def toml_tables(text: str) -> dict[str, Any]:
    """The tables of a TOML text. Raises TomlFault."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.count(".") > _MOST_DOTS:
            raise TomlFault(f"a line with more than {_MOST_DOTS:,} dots (at line {number})")
    try:
        return tomllib.loads(text)
    except RecursionError as fault:
        raise TomlFault("it is nested too deeply") from fault
    except ValueError as fault:
        # Not only TOMLDecodeError: an integer of thousands of digits is none of its faults.
        raise TomlFault(str(fault)) from fault
