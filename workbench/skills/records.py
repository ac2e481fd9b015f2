"""Records of skills: a card, the answer to a condition, the policy's reading, and a plan."""

from enum import StrEnum
from typing import Literal

from msgspec import Struct


class Truth(StrEnum):
    """A three-valued answer: an unknown fact gives UNKNOWN, never an exception or a silent NO."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class Check(Struct, frozen=True, kw_only=True):
    """One condition of a card, evaluated."""

    says: str
    """The condition in words."""
    when: str
    """The condition as an expression over facts."""
    truth: Truth
    because: str
    """The expression with its values, `96 < 104 -> no`; if unknown, which fact is missing."""
    category: str = ""


class Scope(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a card is known to hold. `*` stands for any."""

    families: tuple[str, ...] = ("*",)
    languages: tuple[str, ...] = ("triton",)
    platforms: tuple[str, ...] = ("*",)
    after: tuple[str, ...] = ()
    """Ids of cards that must already be on the line."""
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
    """A case in which the step is known to do harm or to fail."""

    says: str
    when: str = ""
    seen: str = ""
    """Session and commit, or test, in which it was seen."""


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
    paired: float | None = None
    """How many times faster by interleaved pairs, between whose medians the GPU drifts; None where
    there were none, and in old rows."""
    verdict: Literal["accepted", "rejected", "unproven"]
    problem: str = ""
    family: str = ""
    target: str = ""
    """`sm90`."""
    says: str = ""
    """The gate's reason if it was not accepted."""
    parameters: dict[str, int | float | str | bool] = {}
    """The edit's parameters in that step; empty in rows recorded before this field existed."""
    was: dict[str, int | float | str | bool] = {}
    """Their values in the code before the step, if it stated them; empty in old rows, too."""
    kernel: str = ""
    """GPU function that the edit changed; empty in old rows."""

    @property
    def ratio(self) -> float | None:
        """How many times faster it became, by its pairs where it has them; None if not timed."""
        if self.paired is not None:
            return self.paired
        if not self.before_us or not self.after_us:
            return None
        return self.before_us / self.after_us


class Proof(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A candidate of the card that the gate found right on the CPU, and whose speed nothing told.

    It shows that the edit fits and keeps the answer there. No evidence of a gain or a loss: it
    changes neither the card's standing nor what is expected of it.
    """

    problem: str
    state: str
    """Kernel of the problem that it was made from, by name."""
    commit: str
    """First digits of the candidate's digest."""
    target: str
    """GPU that it was compiled for, `sm90`."""
    modeled: float | None = None
    """Modeled speedup, from a model that was not shown to rank such kernels or does not see the
    change; None where nothing was modeled."""
    parameters: dict[str, int | float | str | bool] = {}
    kernel: str = ""


class Admission(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One held-out roundtrip trial."""

    target: str
    held_out: bool
    accepted: bool
    effect_observed: bool
    kind: Literal["", "modeled", "measured"] = ""
    """Kind of the times that decided; empty in trials recorded before this field existed."""
    session: str = ""
    commit: str = ""
    together: str = ""
    """The card whose step it was part of, for a card that pays only with another; else empty."""


class Card(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A conditioned procedural skill: a decoded TOML file of `skills/`."""

    id: str
    title: str
    intent: str
    order: int = 100
    """Rank of the technique in the plain order; lower comes first."""
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
    proof: tuple[Proof, ...] = ()
    admission: tuple[Admission, ...] = ()
    methods: tuple[str, ...] = ()
    """Methods of the policy to which it belongs besides those that its edit and features give."""


Parameter = int | float | str | bool


class PolicyRecord(Struct, frozen=True, kw_only=True):
    """How the decision policy read one kernel: all rules that decided, with the values they saw."""

    structure: str = ""
    """`S3: reduction or scan`; empty when no rule held."""
    headroom: str = ""
    limit: str = ""
    """The kernel's bottleneck by the profile or the model: `dram-bound`; empty when unknown."""
    limit_because: str = ""
    """The number that shows it, and whether that was measured or modeled."""
    predicates: tuple[Check, ...] = ()
    """Predicates that hold, and those that an unknown fact leaves open."""
    bottleneck: str = ""
    bottleneck_because: str = ""
    signature: bool = False
    """Whether the code alone showed the bottleneck, without a profile."""
    case: str = ""
    """The first case that holds; empty when none does."""
    case_says: str = ""
    case_because: str = ""
    cases: tuple[str, ...] = ()
    """All cases that hold, in order; the next one is used when nothing is left in the first."""
    size: str = ""
    """The gain to be expected of the case: small, medium or large."""
    allowed_methods: tuple[str, ...] = ()
    forbidden_methods: tuple[str, ...] = ()
    chosen_by: str = ""
    """The case that allowed the chosen card, or the rest beyond all cases."""
    allowed: tuple[str, ...] = ()
    """Cards that fit the kernel and that the first case allows."""
    forbidden: tuple[str, ...] = ()
    """Cards that fit but are forbidden, each with the reason."""
    ranking: tuple[str, ...] = ()
    """The best of the cards that fit, in order, each with the reason for its place."""
    missing: tuple[str, ...] = ()
    """Unknown facts that would have decided more."""
    defaults: tuple[str, ...] = ()
    """Assumptions that were made, in words."""


class Plan(Struct, frozen=True, kw_only=True):
    """What a step is about to do, and why: the chosen skill with its checked conditions."""

    card: str
    """Id of the card; empty for a candidate that a person submitted."""
    title: str
    intent: str
    kernel: str
    """GPU function that the edit works on."""
    edit: str = ""
    parameters: dict[str, Parameter] = {}
    was: dict[str, Parameter] = {}
    """The parameters' values in the code before the step, if it states them."""
    checks: tuple[Check, ...] = ()
    risks: tuple[Check, ...] = ()
    bottleneck: str = ""
    expected: str = ""
    """The expected effect: `time down 1.1x to 1.6x (modeled)`."""
    reason: str = ""
    """Why this skill was chosen now, in a sentence."""
    trail: tuple[str, ...] = ()
    """How the policy decided, a line for each decision."""
    policy: PolicyRecord | None = None
    """The same as data; None for a candidate that no policy chose."""
    method: str = ""
    """The skill that a model chose for its step: a card's id, or a method of the policy."""
    repairs: int | None = None
    """Number of the refused version that this one repairs."""
    held: int | None = None
    """Number of the version that put the same candidate aside, when another went first."""
    first: tuple[str, ...] = ()
    """Cards whose edits were made before this one's in the same step: they provide what the card
    requires, and are a loss by themselves."""
    asked: int | None = None
    """Number, from 1, of the person's choice that it carries out; None for the run's own choice."""
    phase: str = ""
    """`coarse` while algorithms are chosen, `fine` while they are tuned; empty without a card."""
