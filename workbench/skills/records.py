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
    problem: str = ""
    family: str = ""
    target: str = ""
    """`sm90`."""
    says: str = ""
    """What the gate said of it, where it was not accepted."""
    parameters: dict[str, int | float | str | bool] = {}
    """Of the edit, in that step; empty in rows from before they were kept."""
    was: dict[str, int | float | str | bool] = {}
    """What the code said for them before, where it said it; empty in rows from before that."""
    kernel: str = ""
    """GPU function that the edit was made in; empty in such rows."""

    @property
    def ratio(self) -> float | None:
        """How many times faster it became; None where it was not timed."""
        if not self.before_us or not self.after_us:
            return None
        return self.before_us / self.after_us


class Admission(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One held-out roundtrip trial."""

    target: str
    held_out: bool
    accepted: bool
    effect_observed: bool
    kind: Literal["", "modeled", "measured"] = ""
    """Of the times that decided; empty in trials from before it was kept."""
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
    methods: tuple[str, ...] = ()
    """Methods of the policy that it belongs to besides those its edit and features give it."""


Parameter = int | float | str | bool


class PolicyRecord(Struct, frozen=True, kw_only=True):
    """How the decision policy read one kernel: every rule that decided, with the values it saw."""

    structure: str = ""
    """`S3: reduction or scan`; empty when no rule held."""
    headroom: str = ""
    limit: str = ""
    """What holds the kernel back, as the profile or the model has it; `unknown` without one."""
    limit_because: str = ""
    """With its number, and whether that was measured or modeled."""
    predicates: tuple[Check, ...] = ()
    """Those that hold, and those that an unknown fact leaves open."""
    bottleneck: str = ""
    bottleneck_because: str = ""
    signature: bool = False
    """The code itself told the bottleneck, before any profile was asked."""
    case: str = ""
    """The first that holds; empty when none does."""
    case_says: str = ""
    case_because: str = ""
    cases: tuple[str, ...] = ()
    """All that hold, in their order: what comes when the first has nothing left."""
    size: str = ""
    """What may be expected of the case: small, medium or large."""
    allowed_methods: tuple[str, ...] = ()
    forbidden_methods: tuple[str, ...] = ()
    chosen_by: str = ""
    """The case, or the rest beyond all cases, that allowed the chosen card."""
    allowed: tuple[str, ...] = ()
    """Cards that fit the kernel now and that the first case allows."""
    forbidden: tuple[str, ...] = ()
    """Cards that fit and are closed, each with what closes it."""
    ranking: tuple[str, ...] = ()
    """The first of the cards that fit, best first, each with what placed it."""
    missing: tuple[str, ...] = ()
    """Facts that would have decided more."""
    defaults: tuple[str, ...] = ()
    """What had to be assumed, in words."""


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
    policy: PolicyRecord | None = None
    """The same as data; None for a candidate that no policy chose."""
    method: str = ""
    """Of a step that a model wrote: the skill it chose, a card's id or a method of the policy."""
    repairs: int | None = None
    """The refused version that this one mends."""
    held: int | None = None
    """The version that is this very candidate, looked at and put aside when another went first."""
    first: tuple[str, ...] = ()
    """Cards whose edits were made before this one's in the same step: they provide what the card
    requires, and lose by themselves."""
    asked: int | None = None
    """Which choice of a person's it carries out, counted from 1; None for the run's own."""
    phase: str = ""
    """`coarse` while algorithms are chosen, `fine` while they are tuned; empty without a card."""
