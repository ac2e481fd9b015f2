"""What holds a kernel back, and why one says so: a number, a threshold and a source a line."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from workbench.kernels.records import Fact
from workbench.measure.records import Kind


class Limit(StrEnum):
    """Classes of bottlenecks, in words of a Triton kernel's author."""

    DRAM = "dram-bound"
    L2 = "l2-bound"
    L1 = "l1-bound"
    TENSOR = "tensor-bound"
    ARITHMETIC = "arithmetic-bound"
    """fp32, integer or another plain pipe."""
    SPECIAL = "special-bound"
    """exp, log, sqrt, division: the special-function unit."""
    LATENCY = "latency-bound"
    """Nothing is busy: warps wait, and the stalls say for what."""
    OCCUPANCY = "occupancy-limited"
    """As latency-bound, and too few warps fit on an SM to hide it."""
    UNCOALESCED = "uncoalesced"
    BANK_CONFLICTS = "bank-conflicts"
    SPILLS = "spills"
    DIVERGENCE = "divergence"
    LAUNCH = "launch-bound"
    TAIL = "tail"
    """The last wave leaves much of the device idle."""
    UNKNOWN = "unknown"


class Headroom(StrEnum):
    """How far the busiest resource is from its peak (KernelSkill's tiers)."""

    HIGH = "high"
    """Below 60 %: much may be gained."""
    MEDIUM = "medium"
    """60 to 80 %."""
    LOW = "low"
    """Above 80 %: only less work, or another way to do it, gains much."""
    UNKNOWN = "unknown"


class EvidenceLine(Struct, frozen=True, kw_only=True):
    """One number that speaks for a class."""

    limit: Limit
    fact: str
    """Name in the catalogue: `profile.dram_pct`."""
    value: float | str | bool
    unit: str
    threshold: str
    """`>= 80`."""
    source: str
    """Of the threshold: a paper, NVIDIA's guide, or `ours`."""
    kind: Kind
    """Measured by ncu, modeled from counted work, or exact from the compiler."""

    def says(self) -> str:
        """`profile.dram_pct 91.2 % >= 80 (KernelSkill, DRAM high; measured)`."""
        value = f"{self.value:.4g}" if isinstance(self.value, float) else str(self.value)
        unit = f" {self.unit}" if self.unit else ""
        return f"{self.fact} {value}{unit} {self.threshold} ({self.source}; {self.kind})"


class Bottleneck(Struct, frozen=True, kw_only=True):
    """What holds a kernel back most."""

    limit: Limit
    says: str
    """One line: `dram-bound, measured: DRAM at 91 % of its peak`."""
    evidence: tuple[EvidenceLine, ...] = ()
    """Of `limit` first, then of `others`."""
    others: tuple[Limit, ...] = ()
    """What else passed a threshold, by the order of the rules."""
    headroom: Headroom = Headroom.UNKNOWN
    kind: Kind | None = None
    """Of the number that decided; None when nothing is known. Without ncu never measured."""
    limiter: str = ""
    """Of an occupancy limit: registers, shared, warps, programs. Of a latency: the stall."""
    missing: tuple[str, ...] = ()
    """Facts that would have said more."""


def classify(facts: Mapping[str, Fact]) -> Bottleneck:
    """The bottleneck of one kernel from its facts (`kernels.facts.read_facts`).

    Measured facts decide where they are; else what was traced, modeled and compiled. Unknown facts
    decide nothing: with none known the answer is `Limit.UNKNOWN`.
    """
    from workbench.measure.bottleneck_rules import decide

    return decide(facts)
