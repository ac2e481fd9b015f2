"""Reads a skill card: TOML, decoded strictly, with errors that name file, key and value."""

import math
import re
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from workbench.kernels.edits.base import Edit
from workbench.kernels.edits.registry import EDITS
from workbench.problems.foreign import TomlFault, toml_tables
from workbench.skills.card_faults import CardFault, decode_fault, nearest, short, told
from workbench.skills.conditions import Condition, ConditionFault, parse, parse_value
from workbench.skills.evidence import rows_that_count
from workbench.skills.policy_table import shipped_policy
from workbench.skills.records import Card, Parameter

_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_PLATFORM = re.compile(r"\*|sm\d{2,3}")
_LONGEST_ID = 120
"""Characters (ours): an id is also the name of a file."""
_LAST = 1000
"""The largest `order` (ours): the shipped cards use 8 to 89."""
_POINTS = 1000
"""Most combinations of a grid's values (ours): all are put in order before one is tried."""


class Skill(Struct, frozen=True, kw_only=True):
    """A card whose conditions have been read and whose edit is known to exist."""

    card: Card
    path: Path
    origin: str
    """`shipped` or `user`."""
    replaces: Path | None = None
    """The shipped card of the same id that a user's card replaces."""
    preconditions: tuple[Condition, ...]
    """Conditions in the card's order."""
    risks: tuple[Condition | None, ...]
    """Conditions of the risks in the card's order; None for a risk without a condition."""

    @property
    def admitted(self) -> bool:
        """Whether a held-out roundtrip proved it: otherwise the card is a draft.

        Modeled times prove no gain, so that they admit only a card that claims none, and that was
        tried alone.
        """
        speed = any(e.metric == "time" and e.direction != "same" for e in self.card.effect)
        return any(
            a.held_out
            and a.accepted
            and a.effect_observed
            and not ((speed or a.together) and a.kind == "modeled")
            for a in self.card.admission
        )

    @property
    def standing(self) -> Literal["admitted", "tried", "draft"]:
        """`admitted` by a held-out roundtrip; `tried`: a recorded step of it that counts was kept;
        else a draft."""
        if self.admitted:
            return "admitted"
        kept = any(row.verdict == "accepted" for row in rows_that_count(self.card.evidence))
        return "tried" if kept else "draft"

    @property
    def edit(self) -> Edit | None:
        """What carries it into code by itself; None for a sketch only."""
        return EDITS.get(self.card.carrier.edit)


def read_card(path: Path, origin: str = "user") -> Skill:
    """The card in a file. Raises CardFault."""
    if path.exists() and not path.is_file():
        raise CardFault("the card is not a file", where=str(path), todo="remove or rename it")
    try:
        # Some editors put a mark of the encoding before the text, which TOML does not know.
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as fault:
        raise CardFault(f"the card cannot be read: {fault.strerror}", where=str(path)) from fault
    except UnicodeDecodeError as fault:
        line = path.read_bytes()[: fault.start].count(b"\n") + 1
        raise CardFault(
            "the card is not UTF-8 text", where=f"{path}, line {line}", todo="save it as UTF-8"
        ) from fault
    return parse_card(text, path, origin)


def parse_card(text: str, path: Path, origin: str = "user") -> Skill:
    """The card in a text; `path` is only named in errors. Raises CardFault."""
    try:
        raw = toml_tables(text)
    except TomlFault as fault:
        raise CardFault(f"the card is not TOML: {fault}", where=str(path)) from fault
    try:
        card = msgspec.convert(raw, Card)
    except msgspec.ValidationError as fault:
        raise decode_fault(str(fault), raw, path) from fault
    _check_words(card, path)
    _check_effects(card, path)
    _check_evidence(card, path)
    _check_scope(card, path)
    _check_methods(card, path)
    _check_carrier(card, path)
    return Skill(
        card=card,
        path=path,
        origin=origin,
        preconditions=tuple(
            _condition(p.when, path, f"precondition[{i}].when")
            for i, p in enumerate(card.precondition)
        ),
        risks=tuple(
            _condition(r.when, path, f"risk[{i}].when") if r.when else None
            for i, r in enumerate(card.risk)
        ),
    )


def _check_words(card: Card, path: Path) -> None:
    if not _ID.fullmatch(card.id):
        raise told(path, "id", card.id, "must be lower-case words joined by hyphens")
    if len(card.id) > _LONGEST_ID:
        raise told(path, "id", card.id, f"is longer than {_LONGEST_ID} characters")
    if not 0 <= card.order <= _LAST:
        raise told(path, "order", card.order, f"expected 0 to {_LAST}")
    for key, value in (("title", card.title), ("intent", card.intent)):
        if not value.strip():
            raise told(path, key, value, "must say something")
    for index, condition in enumerate(card.precondition):
        if not condition.says.strip():
            raise told(path, f"precondition[{index}].says", "", "must say something")


def _check_effects(card: Card, path: Path) -> None:
    for index, effect in enumerate(card.effect):
        for end in ("low", "high"):
            value = getattr(effect, end)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise told(path, f"effect[{index}].{end}", value, "must be a ratio above zero")
        if effect.low is not None and effect.high is not None and effect.low > effect.high:
            raise told(path, f"effect[{index}].low", effect.low, f"is above high, {effect.high}")


def _check_evidence(card: Card, path: Path) -> None:
    for index, row in enumerate(card.evidence):
        for key in ("before_us", "after_us", "paired"):
            value = getattr(row, key)
            if value is not None and not (math.isfinite(value) and value > 0):
                what = "ratio" if key == "paired" else "time"
                raise told(path, f"evidence[{index}].{key}", value, f"must be a {what} above zero")


def _check_scope(card: Card, path: Path) -> None:
    scope = card.scope
    for key in ("families", "languages", "platforms"):
        if not getattr(scope, key):
            raise told(path, f"scope.{key}", (), "must hold at least one", "`*` stands for any")
    for index, name in enumerate(scope.platforms):
        if not _PLATFORM.fullmatch(name):
            raise told(path, f"scope.platforms[{index}]", name, "expected one like `sm90`, or `*`")


def _check_methods(card: Card, path: Path) -> None:
    if not card.methods:
        return
    known = [method.id for method in shipped_policy().file.method]
    for index, name in enumerate(card.methods):
        if name not in known:
            raise told(
                path,
                f"methods[{index}]",
                name,
                "the policy has no such method",
                nearest(name, known),
            )


def _check_carrier(card: Card, path: Path) -> None:
    carrier = card.carrier
    if not carrier.edit and not carrier.sketch.strip():
        raise told(path, "carrier", None, "needs an edit or a sketch")
    if not carrier.edit:
        if carrier.grid:
            raise told(path, "carrier.grid", carrier.grid, "a sketch has no parameters")
        return
    edit = EDITS.get(carrier.edit)
    if edit is None:
        raise told(
            path,
            "carrier.edit",
            carrier.edit,
            "there is no such edit",
            nearest(carrier.edit, EDITS) or "`workbench skills list` names the edits of all cards",
        )
    known = {p.name: p for p in edit.parameters}
    for name, values in carrier.grid.items():
        key = f"carrier.grid.{name}"
        if name not in known:
            todo = nearest(name, known) if known else "it has no parameters"
            raise told(path, key, values, f"the edit `{edit.id}` has no such parameter", todo)
        if not values:
            raise told(path, key, values, "must hold at least one value")
        for value in values:
            _check_value(value, known[name].kind, path, key)
    points = math.prod(len(values) for values in carrier.grid.values())
    if points > _POINTS:
        says = f"makes {points} combinations, more than {_POINTS}"
        raise told(path, "carrier.grid", carrier.grid, says, "leave out what is not worth a try")


def _check_value(value: Parameter, kind: str, path: Path, key: str) -> None:
    """A whole number may also be written as an expression over facts."""
    if kind == "int" and isinstance(value, str):
        try:
            expression = parse_value(value)
        except ConditionFault as fault:
            raise CardFault(
                f"`{key}` = {short(value)}: {fault.what}", where=str(path), todo=fault.todo
            ) from fault
        if expression.type != "number":
            raise told(path, key, value, "must be a number or an expression of numbers")
        return
    wanted = {"int": int, "text": str, "flag": bool}[kind]
    if not isinstance(value, wanted) or (kind == "int" and isinstance(value, bool)):
        word = {"int": "a whole number", "text": "a text", "flag": "true or false"}[kind]
        raise told(path, key, value, f"expected {word}")
    if kind == "int" and isinstance(value, int) and value < 0:
        raise told(path, key, value, "expected a whole number from zero on")


def _condition(text: str, path: Path, key: str) -> Condition:
    try:
        return parse(text)
    except ConditionFault as fault:
        raise CardFault(
            f"`{key}` = {short(text)}: {fault.what}", where=str(path), todo=fault.todo
        ) from fault
