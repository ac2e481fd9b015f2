"""Records of what limits a kernel's speed, with the evidence: number, threshold and source."""

from enum import StrEnum

from msgspec import Struct

from workbench.measure.records import Kind


class BottleneckClass(StrEnum):
    """Classes of bottlenecks, in words of a Triton kernel's author."""

    DRAM = "dram-bound"
    L2 = "l2-bound"
    L1 = "l1-bound"
    TENSOR = "tensor-bound"
    ARITHMETIC = "arithmetic-bound"
    """The fp32, integer or another ordinary pipe."""
    SPECIAL = "special-bound"
    """The special-function unit: exp, log, sqrt, division."""
    LATENCY = "latency-bound"
    """No resource is busy: warps wait, and the stalls say for what."""
    OCCUPANCY = "occupancy-limited"
    """Latency-bound, and too few warps fit on an SM to hide the latency."""
    UNCOALESCED = "uncoalesced"
    BANK_CONFLICTS = "bank-conflicts"
    SPILLS = "spills"
    DIVERGENCE = "divergence"
    LAUNCH = "launch-bound"
    TAIL = "tail"
    """The last wave of programs leaves much of the device idle."""
    UNKNOWN = "unknown"


class Headroom(StrEnum):
    """How far the busiest resource is from its peak (KernelSkill's tiers)."""

    HIGH = "high"
    """Below 60 % of its peak: much may be gained."""
    MEDIUM = "medium"
    """60 to 80 %."""
    LOW = "low"
    """Above 80 %: only doing less work, or doing it differently, gains much."""
    UNKNOWN = "unknown"


class EvidenceLine(Struct, frozen=True, kw_only=True):
    """One number that indicates a class."""

    limit: BottleneckClass
    fact: str
    """Name of the fact: `profile.dram_pct`."""
    value: float | str | bool
    unit: str
    threshold: str
    """The test that it passed: `>= 80`."""
    source: str
    """Where the threshold comes from: a paper, NVIDIA's guide, or `ours`."""
    kind: Kind
    """Measured by ncu, modeled from counted work, or exact from the compiler."""

    def says(self) -> str:
        """One line: `profile.dram_pct 91.2 % >= 80 (KernelSkill, DRAM high; measured)`."""
        value = f"{self.value:.4g}" if isinstance(self.value, float) else str(self.value)
        unit = f" {self.unit}" if self.unit else ""
        return f"{self.fact} {value}{unit} {self.threshold} ({self.source}; {self.kind})"


class Bottleneck(Struct, frozen=True, kw_only=True):
    """What limits a kernel's speed most."""

    limit: BottleneckClass
    says: str
    """One line: `dram-bound, measured: profile.dram_pct 91.2% >= 80`."""
    evidence: tuple[EvidenceLine, ...] = ()
    """Evidence for `limit` first, then for `others`."""
    others: tuple[BottleneckClass, ...] = ()
    """Other classes whose rules hold, in the order of the rules."""
    headroom: Headroom = Headroom.UNKNOWN
    kind: Kind | None = None
    """Kind of the number that decided; None when nothing is known. Never MEASURED without ncu."""
    limiter: str = ""
    """What limits occupancy (registers, shared, warps or programs), or the main stall."""
    missing: tuple[str, ...] = ()
    """Unknown facts that the rules would have used."""
