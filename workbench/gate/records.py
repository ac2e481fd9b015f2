"""What the gate says of a candidate: findings, stage reports and the verdict, as data."""

from enum import StrEnum

from msgspec import Struct

from workbench.kernels.records import Launch, LaunchTrace
from workbench.measure.baselines import Baselines
from workbench.measure.ncu.records import NcuRecord
from workbench.measure.records import Limit, PairSamples, Speed, Time

Evidence = dict[str, str | int | float | bool | None]

NO_CODE_RAN = "no candidate code ran"
"""Isolation of a stage that only looked."""


class Stage(StrEnum):
    """The four questions, in the order they are asked."""

    POLICY = "policy"
    COMPILE = "compile"
    CORRECTNESS = "correctness"
    PROFILE = "profile"


class Verdict(StrEnum):
    """What the whole gate says."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    UNPROVEN = "unproven"
    """A claim needed a GPU or a tool that is not there; not a fault of the kernel."""


class Outcome(StrEnum):
    """What one stage says."""

    PASSED = "passed"
    FAILED = "failed"
    UNPROVEN = "unproven"
    SKIPPED = "skipped"
    """Not asked, because an earlier stage failed or the rung does not ask it."""


class Blame(StrEnum):
    """Whose fault a finding is: a broken reference or machine is not the candidate's failure."""

    CANDIDATE = "candidate"
    PROBLEM = "problem"
    MACHINE = "machine"


class Finding(Struct, frozen=True, kw_only=True):
    """One thing a stage found."""

    code: str
    """Stable, `stage.reason`: `policy.torch-compute`, `correctness.error-above-bound`."""
    says: str
    """One sentence for a person."""
    line: int | None = None
    """In the candidate's file."""
    blame: Blame = Blame.CANDIDATE
    evidence: Evidence = {}
    """Value, bound, case, seed to replay, ..."""


class StageReport(Struct, frozen=True, kw_only=True):
    """One stage of one candidate."""

    stage: Stage
    outcome: Outcome
    says: str
    """One line: `9 calls over 3 shapes, worst error 0.12 of the bound`."""
    findings: tuple[Finding, ...] = ()
    """Empty when passed, unless something deserves a look."""
    seconds: float = 0.0
    parts: dict[str, float] = {}
    """Where the seconds went; parts that ran side by side add up to more than `seconds`."""
    margin: float | None = None
    """The worst error of all calls over its bound; None where nothing was held to one."""
    isolation: str = NO_CODE_RAN
    """In force while candidate code ran: `bubblewrap`, `landlock+seccomp` or `process only`."""


class GateReport(Struct, frozen=True, kw_only=True):
    """The gate's whole answer on one candidate. Reads the same next year."""

    verdict: Verdict
    stage: Stage
    """Where it ended: the failing or unproven stage, or the last one asked."""
    code: str
    """Reason code of the decisive finding; empty when accepted."""
    says: str
    stages: tuple[StageReport, ...]
    rung: int
    kernel_sha256: str
    target: str
    """`sm90`."""
    device: str
    """Name of the GPU that measured, or `cpu`."""
    gpu: str = ""
    """Which one of that name: `cuda:1 GPU-5f3c...`; empty where nothing was asked of a GPU."""
    toolchain: dict[str, str] = {}
    """Versions of torch, triton and ptxas that the numbers hold for."""
    replay_seed: str = ""
    """Hex; feeds `gate --seed` to repeat the same inputs."""
    time: Time | None = None
    """Of the candidate at the full shape."""
    against: Time | None = None
    """Of what it was compared with, in the same run."""
    reference: Time | None = None
    """Of the PyTorch reference, where known."""
    limit: Limit | None = None
    """What `time` is measured against, where it was measured and the work is known."""
    baselines: Baselines | None = None
    """Eager and compiled PyTorch on this GPU, where they were timed within the day."""
    speed: Speed | None = None
    """Against the parent."""
    versus_seed: Speed | None = None
    versus_reference: Speed | None = None
    work: str = ""
    """What it makes a GPU do, as a digest: two texts with the same one are the same work."""
    launches: tuple[Launch, ...] = ()
    traces: tuple[LaunchTrace, ...] = ()
    samples: tuple[PairSamples, ...] = ()
    """Of every timing run; empty when nothing was measured."""
    gpu_seconds: float = 0.0
    ncu: NcuRecord | None = None
    """What the GPU's counters said of an accepted candidate, or why nothing; None when not asked,
    as without a GPU."""

    def report(self, stage: Stage) -> StageReport | None:
        """The report of one stage, or None when the gate never came to it."""
        return next((r for r in self.stages if r.stage is stage), None)
