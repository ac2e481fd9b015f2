"""Records of the gate's result for a candidate: findings, stage reports and the verdict."""

from enum import StrEnum

from msgspec import Struct

from workbench.kernels.records import Launch, LaunchTrace
from workbench.measure.baselines import Baselines
from workbench.measure.ncu.records import NcuRecord
from workbench.measure.records import Limit, PairSamples, Speed, Time

Evidence = dict[str, str | int | float | bool | None]

NO_CODE_RAN = "no candidate code ran"
"""Value of `StageReport.isolation` for a stage that runs no candidate code."""


class Stage(StrEnum):
    """The four stages of the gate, in their order."""

    POLICY = "policy"
    COMPILE = "compile"
    CORRECTNESS = "correctness"
    PROFILE = "profile"


class Verdict(StrEnum):
    """The answer of the whole gate."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    UNPROVEN = "unproven"
    """A claim could not be checked, often for lack of a GPU or a tool; no fault of the kernel."""


class Outcome(StrEnum):
    """The answer of one stage."""

    PASSED = "passed"
    FAILED = "failed"
    UNPROVEN = "unproven"
    SKIPPED = "skipped"
    """Not run, because an earlier stage failed or the rung does not include it."""


class Blame(StrEnum):
    """Whose fault a finding is: a broken reference or machine is not the candidate's failure."""

    CANDIDATE = "candidate"
    PROBLEM = "problem"
    MACHINE = "machine"


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that a stage found."""

    code: str
    """A stable name, `stage.reason`: `policy.torch-compute`, `correctness.error-above-bound`."""
    says: str
    """One sentence for a person."""
    line: int | None = None
    """Line in the candidate's file; None if there is none to name."""
    blame: Blame = Blame.CANDIDATE
    evidence: Evidence = {}
    """Values that support it: value, bound, case, seed to replay, ..."""


class StageReport(Struct, frozen=True, kw_only=True):
    """The report of one stage on one candidate."""

    stage: Stage
    outcome: Outcome
    says: str
    """One line: `9 calls over 3 shapes, worst error 0.12 of the bound`."""
    findings: tuple[Finding, ...] = ()
    """Empty when passed, except for notes."""
    seconds: float = 0.0
    parts: dict[str, float] = {}
    """Seconds by part; parts that ran in parallel add up to more than `seconds`."""
    margin: float | None = None
    """The worst error of all calls divided by its bound; None if nothing was compared."""
    isolation: str = NO_CODE_RAN
    """Isolation of the candidate code: `bubblewrap`, `landlock+seccomp` or `process only`."""


class GateReport(Struct, frozen=True, kw_only=True):
    """The gate's complete result for one candidate."""

    verdict: Verdict
    stage: Stage
    """Where it ended: the failing or unproven stage, or the last one that ran."""
    code: str
    """Code of the decisive finding; empty when accepted."""
    says: str
    """The answer in one line."""
    stages: tuple[StageReport, ...]
    rung: int
    kernel_sha256: str
    target: str
    """`sm90`."""
    device: str
    """Name of the GPU that measured, or `cpu`."""
    gpu: str = ""
    """Which GPU of that name: `cuda:1 GPU-5f3c...`; empty if no GPU was used."""
    toolchain: dict[str, str] = {}
    """Versions of torch, triton and ptxas for which the numbers hold."""
    replay_seed: str = ""
    """Hex seed for `gate --seed`, which repeats the same inputs."""
    time: Time | None = None
    """Time of the candidate at the full shape."""
    against: Time | None = None
    """Time of the kernel that it was compared with, from the same run."""
    reference: Time | None = None
    """Time of the PyTorch reference, where known."""
    limit: Limit | None = None
    """The roofline for `time`, if that was measured and the problem's work is known."""
    baselines: Baselines | None = None
    """Times of eager and compiled PyTorch on this GPU, if measured within a day."""
    speed: Speed | None = None
    """Speed against the parent."""
    versus_seed: Speed | None = None
    versus_reference: Speed | None = None
    work: str = ""
    """Digest of what the candidate makes a GPU do: candidates with equal digests do equal work."""
    launches: tuple[Launch, ...] = ()
    traces: tuple[LaunchTrace, ...] = ()
    samples: tuple[PairSamples, ...] = ()
    """Samples of all timing runs; empty when nothing was measured."""
    gpu_seconds: float = 0.0
    """How long a GPU was held: exclusively for pairs and counters, else beside others."""
    ncu: NcuRecord | None = None
    """The GPU's counters for an accepted candidate, or why there are none; None when they were not
    read, for example without a GPU."""

    def report(self, stage: Stage) -> StageReport | None:
        """The report of one stage; None if the gate did not get that far."""
        return next((r for r in self.stages if r.stage is stage), None)
