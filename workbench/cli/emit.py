"""All of stdout: text for a person or JSON for a machine, made from the same record."""

import sys
from collections.abc import Sequence

import msgspec


def text(line: str = "") -> None:
    """One line or block for a person."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def json(record: object) -> None:
    """One object on one line."""
    sys.stdout.write(msgspec.json.encode(record).decode() + "\n")
    sys.stdout.flush()


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Columns as wide as their widest cell, two blanks apart; no trailing blanks."""
    lines = [head, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
