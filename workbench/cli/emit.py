"""All of stdout: text for a person or JSON for a machine, made from the same record."""

import difflib
import json as plain_json
import os
import sys
from collections.abc import Sequence

import msgspec

from workbench.engine.visible import visible
from workbench.errors import WorkbenchError


class ReaderLeft(Exception):
    """Nobody reads what is printed any more, as behind `head`; no OSError, since click makes a
    failure of one."""


def text(line: str = "") -> None:
    """One line or block for a person; on a terminal without what would steer it."""
    line = visible(line) if on_terminal() else line
    _write(line if _carries(line) else _poorer(line))


def json(record: object) -> None:
    """One object on one line."""
    try:
        line = msgspec.json.encode(record).decode()
    except UnicodeEncodeError:
        line = msgspec.json.encode(_in_characters(msgspec.to_builtins(record))).decode()
    # Escapes keep it the same JSON where stdout is not UTF-8.
    _write(line if _carries(line) else plain_json.dumps(plain_json.loads(line)))


def _in_characters(value: object) -> object:
    """The same with what is no character, as in a path that is not UTF-8, escaped as on stderr."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list):
        return [_in_characters(one) for one in value]
    if isinstance(value, dict):
        return {_in_characters(key): _in_characters(one) for key, one in value.items()}
    return value


def on_terminal() -> bool:
    """Whether a person sees stdout directly; not when it is closed."""
    return sys.stdout is not None and sys.stdout.isatty()


def is_open() -> bool:
    """Whether anything is read of what is written; not when a person closed stdout."""
    return sys.stdout is not None


def _carries(line: str) -> bool:
    """Whether stdout's encoding has every character; a closed stdout has."""
    if sys.stdout is None:
        return True
    try:
        line.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _poorer(line: str) -> str:
    """The line in stdout's encoding: ASCII for the lineage's glyphs, `?` for what is left."""
    from workbench.lineage.lanes import to_ascii

    encoding = sys.stdout.encoding or "utf-8"
    drawn = line if encoding.lower().replace("-", "") == "utf8" else to_ascii(line)
    return drawn.encode(encoding, "replace").decode(encoding)


def _write(line: str) -> None:
    out = sys.stdout
    if out is None:
        return
    try:
        out.write(line + "\n")
        out.flush()
    except BrokenPipeError as fault:
        _abandon()
        raise ReaderLeft from fault
    except OSError as fault:
        _abandon()
        raise WorkbenchError(
            f"the result cannot be written: {fault.strerror or fault}",
            where="standard output",
            todo="free some space, or send the output elsewhere",
        ) from fault


def _abandon() -> None:
    """Let what is still buffered go nowhere, so that Python's own exit does not fail on it."""
    nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Columns as wide as their widest cell, two blanks apart; no trailing blanks."""
    lines = [head, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def unified(before: str, after: str, a: str, b: str) -> str:
    """A unified diff with three lines of context, without a final newline."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), a, b, lineterm="")
    return "\n".join(lines)
