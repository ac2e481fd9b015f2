"""A person's hints in git: committed with the next version, and read again where a bundle opens."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from workbench.agents.exchange import Hinted
from workbench.agents.ledger import Ledger, read_lines
from workbench.agents.prices import Prices
from workbench.session.reader import SessionReader


def hint_lines(state: Path, number: int) -> list[dict[str, Any]]:
    """The hints that were given towards a transition, as its commit keeps them."""
    return [msgspec.to_builtins(line) for line in _kept(state) if line.number == number]


def unsent(store: SessionReader) -> int:
    """How many hints wait for a version that is not there yet, so that no bundle holds them."""
    number = store.next_number()
    return sum(line.number >= number for line in _kept(store.state))


def restore(store: SessionReader) -> None:
    """Put the hints that versions hold back into the journal that prompts are made from.

    Raises WorkbenchError where it cannot be written.
    """
    found = [hint for lines in store.exchanges() for hint in _in(lines)]
    if found:
        with Ledger(store.state, Prices()) as ledger:
            for hint in found:
                ledger.hint(hint.number, hint.text)


def _kept(state: Path) -> Iterator[Hinted]:
    return (line for line in read_lines(state) if isinstance(line, Hinted))


def _in(lines: list[dict[str, Any]]) -> Iterator[Hinted]:
    """The hints in a version's exchange; lines of other kinds are skipped."""
    for line in lines:
        if line.get("line") != "hint":
            continue
        try:
            yield msgspec.convert(line, Hinted)
        except msgspec.ValidationError:
            continue
