"""What was read out of a model's reply: a candidate with its repairs, or why there is none."""

from enum import StrEnum

from msgspec import Struct


class Form(StrEnum):
    """How the reply carried its code."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    JSON = "json"
    UNIFIED = "unified diff"
    SEARCH_REPLACE = "search and replace"


class Repair(Struct, frozen=True, kw_only=True):
    """One change of ours to what the model wrote, made because its intent is certain."""

    code: str
    """Stable: `missing-import`, `class-name`, `smart-quotes`, ..."""
    says: str
    added: str = ""
    """Text that is not in the reply."""


class Parsed(Struct, frozen=True, kw_only=True):
    """A candidate."""

    source: str
    form: Form
    repairs: tuple[Repair, ...] = ()


class HandedBack(Struct, frozen=True, kw_only=True):
    """No candidate; `reason` is told to the model, once."""

    code: str
    """Stable: `no-code`, `truncated`, `ambiguous`, `anchor-not-found`, ..."""
    reason: str


class Signature(Struct, frozen=True, kw_only=True):
    """The names by which the problem's Model takes its arguments, `self` not among them."""

    init: tuple[str, ...]
    forward: tuple[str, ...]
