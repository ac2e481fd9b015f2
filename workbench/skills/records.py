"""A skill's card, a condition's answer and a plan: what the workbench knows and what it chose."""

from enum import StrEnum
from typing import Literal

from msgspec import Struct


class Truth(StrEnum):
    """Three-valued: an unknown fact gives unknown, never an exception and never a silent no."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Check(Struct, frozen=True, kw_only=True):
    """One condition of a card, evaluated."""

    says: str
    """The condition in words."""
    when: str
    """The expression."""
    truth: Truth
    because: str
    """With the values filled in: `96 < 104 -> no`; for unknown, which fact is missing."""
    category: str = ""


class Scope(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a card was seen to hold. `*` stands for any."""

    families: tuple[str, ...] = ("*",)
    languages: tuple[str, ...] = ("triton",)
    platforms: tuple[str, ...] = ("*",)
    after: tuple[str, ...] = ()
    """Card ids that must already be on this line."""
    not_after: tuple[str, ...] = ()


class Precondition(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When the step is sound."""

    says: str
    when: str
    category: Literal["data types", "layout", "storage", "pipeline", "hardware"]


class Effect(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the step is expected to change."""

    metric: str
    direction: Literal["up", "down", "same"]
    low: float | None = None
    high: float | None = None


class Risk(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When the step is known to hurt or fail."""

    says: str
    when: str = ""
    seen: str = ""
    """Session and commit, or test, where it was seen."""


class Carrier(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What carries the skill into code: an edit with its grid, a sketch for a model, or both."""

    edit: str = ""
    grid: dict[str, tuple[int | float | str | bool, ...]] = {}
    sketch: str = ""


class EvidenceRow(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One transition that speaks for or against the card."""

    session: str
    commit: str
    device: str
    kind: Literal["modeled", "measured"]
    before_us: float | None = None
    after_us: float | None = None
    verdict: Literal["accepted", "rejected", "unproven"]


class Admission(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One held-out roundtrip trial."""

    target: str
    held_out: bool
    accepted: bool
    effect_observed: bool
    session: str = ""
    commit: str = ""


class Card(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A conditioned procedural skill; the TOML file in `skills/` decoded."""

    id: str
    title: str
    intent: str
    order: int = 100
    """Rank of the technique in the plain order of the first proposer; lower goes first."""
    scope: Scope = Scope()
    anchor: str = ""
    """What must be found in the code, in words; the edit's own anchor decides."""
    carrier: Carrier
    precondition: tuple[Precondition, ...] = ()
    effect: tuple[Effect, ...] = ()
    risk: tuple[Risk, ...] = ()
    requires: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    evidence: tuple[EvidenceRow, ...] = ()
    admission: tuple[Admission, ...] = ()


Parameter = int | float | str | bool


class Plan(Struct, frozen=True, kw_only=True):
    """The chosen skill with its checked conditions: what a step is about to do, and why."""

    card: str
    """Card id; empty for a candidate that a person submitted."""
    title: str
    intent: str
    kernel: str
    """GPU function that the edit works on."""
    edit: str = ""
    parameters: dict[str, Parameter] = {}
    was: dict[str, Parameter] = {}
    """What the code said for those parameters before, where it said it plainly."""
    checks: tuple[Check, ...] = ()
    risks: tuple[Check, ...] = ()
    bottleneck: str = ""
    expected: str = ""
    """`time down 1.1x to 1.6x (modeled)`."""
    reason: str = ""
    """Why this one now, in a sentence."""
    trail: tuple[str, ...] = ()
    """How the policy came to it, a line a decision."""
