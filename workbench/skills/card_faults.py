"""How a fault of a card is told: the file, the key, its value, and what was expected."""

import difflib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from workbench.errors import WorkbenchError
from workbench.skills.records import (
    Admission,
    Card,
    Carrier,
    Effect,
    EvidenceRow,
    Parameter,
    Precondition,
    Risk,
    Scope,
)

_LIKE = 0.6
"""How alike two words are for one to be meant by the other, 0 to 1 (ours)."""
_FEW = 20
"""Most words that an error lists (ours)."""
_UNKNOWN_FIELD = re.compile(r"unknown field `([^`]*)`")
_AT = re.compile(r" - at `([^`]*)`")
_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
_TABLES: dict[str, type[Struct]] = {
    "scope": Scope,
    "carrier": Carrier,
    "precondition": Precondition,
    "effect": Effect,
    "risk": Risk,
    "evidence": EvidenceRow,
    "admission": Admission,
}


class CardFault(WorkbenchError):
    """A card that cannot be used: the file, the key, its value and what was expected."""


def told(path: Path, key: str, value: object, wrong: str, todo: str = "") -> CardFault:
    """What is wrong with a key of a card, with its value unless that is None."""
    shown = "" if value is None else f" = {short(value)}"
    return CardFault(f"`{key}`{shown}: {wrong}", where=str(path), todo=todo)


def short(value: object) -> str:
    """A value as an error shows it."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def decode_fault(message: str, raw: dict[str, object], path: Path) -> CardFault:
    """msgspec's message with the key, its value and, for a wrong name, the nearest right one."""
    found = _AT.search(message)
    steps = found.group(1).removeprefix("$").removeprefix(".") if found else ""
    wrong = _AT.sub("", message)
    unknown = _UNKNOWN_FIELD.search(message)
    if unknown is not None:
        key = f"{steps}.{unknown.group(1)}" if steps else unknown.group(1)
        table = _TABLES.get(re.split(r"[.\[]", steps)[0], Card)
        return told(
            path,
            key,
            _value_at(raw, key),
            "there is no such key",
            nearest(unknown.group(1), get_type_hints(table)),
        )
    steps = _named(steps, raw)
    wrong = wrong[:1].lower() + wrong[1:]
    if (words := _words_for(steps)) and "enum" in wrong:
        wrong = f"expected {', '.join(words[:-1])} or {words[-1]}"
    return told(path, steps or "card", _value_at(raw, steps) if steps else None, wrong)


def _named(steps: str, raw: dict[str, object]) -> str:
    """The path with the name of the first faulty entry where msgspec only says `[...]`."""
    before, anonymous, after = steps.partition("[...]")
    if not anonymous:
        return steps
    entries = _value_at(raw, before)
    for name, value in entries.items() if isinstance(entries, dict) else ():
        try:
            msgspec.convert(value, tuple[Parameter, ...])
        except msgspec.ValidationError:
            return f"{before}.{name}{after}"
    return steps


def _words_for(steps: str) -> tuple[str, ...]:
    """The words that a key may hold; empty where any may stand."""
    table = _TABLES.get(re.split(r"[.\[]", steps)[0], Card)
    kind = get_type_hints(table).get(steps.rpartition(".")[2])
    return tuple(filter(None, get_args(kind))) if get_origin(kind) is Literal else ()


def _value_at(raw: object, key: str) -> object:
    for name, index in _STEP.findall(key):
        if name and isinstance(raw, dict):
            raw = raw.get(name)
        elif index and isinstance(raw, list) and int(index) < len(raw):
            raw = raw[int(index)]
        else:
            return None
    return raw


def nearest(wrong: str, known: Iterable[str]) -> str:
    """What was probably meant, or what there is where that is little; empty where neither helps."""
    every = list(known)
    near = difflib.get_close_matches(wrong, every, n=1, cutoff=_LIKE)
    if near:
        return f"the nearest is `{near[0]}`"
    return f"there are {', '.join(sorted(every))}" if 0 < len(every) <= _FEW else ""
