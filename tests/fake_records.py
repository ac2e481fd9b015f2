"""The records of one made-up session: thirteen versions of a row kernel, as a store holds them."""

from msgspec import structs

from workbench.engine.view import Version
from workbench.gate.records import Finding, GateReport, Outcome, Stage, StageReport, Verdict
from workbench.kernels.records import Launch, LaunchTrace, StaticProfile, Traffic
from workbench.measure.records import Kind, Speed, Time
from workbench.session.records import Answer, Cost, Decision, Transition
from workbench.skills.records import Check, Plan, Truth

SEED_US = 840.0
BYTES = 939_524_096

_CANDIDATE = '''\
"""RMS normalization over the last dimension."""

import torch
import triton
import triton.language as tl
from torch import nn


KERNEL


class ModelNew(nn.Module):
    def __init__(self, features: int, eps: float = 1e-5):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        rows, cols = x.shape
        rms_kernel[(rows,)](x, self.weight, y, cols, self.eps, META)
        return y
'''

_TWO_PASSES = """\
@triton.jit
def rms_kernel(x_ptr, w_ptr, y_ptr, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0)
        total += x * x
    scale = tl.rsqrt(tl.sum(total) / n_cols + eps)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=0.0)
        w = tl.load(w_ptr + cols, mask=cols < n_cols)
        tl.store(y_ptr + row * n_cols + cols, x * scale * w, mask=cols < n_cols)"""

_ON_CHIP = """\
@triton.jit
def rms_kernel(x_ptr, w_ptr, y_ptr, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    # The whole row stays on chip: read once, written once.
    cols = tl.arange(0, BLOCK)
    inside = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=inside, other=0.0, eviction_policy="evict_first")
    scale = tl.rsqrt(tl.sum(x * x) / n_cols + eps)
    w = tl.load(w_ptr + cols, mask=inside)
    tl.store(y_ptr + row * n_cols + cols, x * scale * w, mask=inside)"""

PARENT_SOURCE = _CANDIDATE.replace("KERNEL", _TWO_PASSES).replace("META", "BLOCK=1024, num_warps=4")
SOURCE = _CANDIDATE.replace("KERNEL", _ON_CHIP).replace("META", "BLOCK=8192, num_warps=8")

# number, parent, title, card, speed against the seed, answer, where the gate ended
STEPS = (
    (0, None, "seed: two-pass row kernel", "", 1.00, Answer.ACCEPTED, Stage.PROFILE),
    (1, 0, "block of 2048 columns", "launch/block-size", 1.05, Answer.ACCEPTED, Stage.PROFILE),
    (2, 1, "swizzle the row order", "layout/l2-swizzle", None, Answer.REJECTED, Stage.COMPILE),
    (3, 1, "8 warps a program", "launch/warps", 1.22, Answer.ACCEPTED, Stage.PROFILE),
    (4, 3, "unroll the loop by 4", "pipeline/unroll", 1.08, Answer.REJECTED, Stage.PROFILE),
    (
        5,
        3,
        "drop masks under divisibility",
        "pipeline/drop-masks",
        1.40,
        Answer.ACCEPTED,
        Stage.PROFILE,
    ),
    (6, 5, "evict_last on the input", "storage/eviction", 1.43, Answer.VETOED, Stage.PROFILE),
    (7, 5, "contiguity hints", "layout/contiguity", 1.52, Answer.ACCEPTED, Stage.PROFILE),
    (8, 7, "cache the output pointer", "storage/cache-output", None, Answer.REJECTED, Stage.POLICY),
    (9, 7, "two stages of loads", "pipeline/stages", 1.88, Answer.ACCEPTED, Stage.PROFILE),
    (
        10,
        9,
        "fast reciprocal square root",
        "math/rsqrt-approx",
        None,
        Answer.REJECTED,
        Stage.CORRECTNESS,
    ),
    (
        11,
        9,
        "split the row over two programs",
        "launch/split-row",
        1.71,
        Answer.REJECTED,
        Stage.PROFILE,
    ),
    (12, 9, "keep the row on chip", "storage/row-on-chip", 2.31, Answer.PENDING, Stage.PROFILE),
)

CODES = {
    Stage.POLICY: "policy.caches-output", Stage.COMPILE: "compile.kernel-refused",
    Stage.CORRECTNESS: "correctness.error-above-bound", Stage.PROFILE: "profile.slower",
}  # fmt: skip
"""What the gate found where it said no."""

PLAN = Plan(
    card="storage/row-on-chip",
    title="Keep the row on chip instead of reading it twice",
    intent="Read each row once, hold it in registers through the reduction, write it once.",
    kernel="rms_kernel",
    edit="row-on-chip",
    parameters={"BLOCK": 8192, "num_warps": 8},
    checks=(
        Check(says="the loop re-reads the tensor it reduced", when="loop.rereads == 1",
              truth=Truth.YES, because="x_ptr, lines 14 and 19", category="storage"),
        Check(says="memory bound", when="time.limit == 'dram'", truth=Truth.YES,
              because="dram 91 % of the modeled time", category="pipeline"),
        Check(says="a row fits 64 registers a thread",
              when="problem.row_elements / launch.threads <= 64", truth=Truth.NO,
              because="8192 / 128 = 64.0 and 26 are taken", category="storage"),
        Check(says="the row is a power of two or masked", when="problem.row_masked",
              truth=Truth.YES, because="mask=cols < n_cols", category="layout"),
        Check(says="no spills after the step", when="static.spill_bytes == 0", truth=Truth.UNKNOWN,
              because="static.spill_bytes: the compile stage will say", category="hardware"),
    ),
    risks=(
        Check(says="occupancy falls under a quarter", when="static.occupancy < 0.25",
              truth=Truth.YES, because="0.19 < 0.25"),
    ),
    bottleneck="DRAM traffic: 1.9 GiB moved, 0.9 GiB needed",
    expected="time down 1.1x to 1.6x (modeled)",
    reason="The input is read twice, and 91 % of the modeled time is DRAM. Holding the row in "
    "registers saves one of the two reads.",
    trail=("bottleneck dram -> storage cards", "row-on-chip before eviction: larger effect"),
)  # fmt: skip


def speed(ratio: float, *, kind: Kind = Kind.MODELED) -> Speed:
    """A speed; a measured one has its interval."""
    if kind is Kind.MODELED:
        return Speed(kind=kind, ratio=ratio)
    return Speed(
        kind=kind, ratio=ratio, low=ratio * 0.993, high=ratio * 1.007, confidence=0.95, pairs=200,
        gpu_seconds=0.4,
    )  # fmt: skip


def static(number: int) -> StaticProfile:
    """A static profile that changes with the version."""
    registers = 26 + 2 * number
    return StaticProfile(
        registers=registers, spill_store_bytes=0, spill_load_bytes=0, stack_bytes=0,
        shared_bytes=32 + 256 * number, threads=256, programs_per_sm=8,
        occupancy=0.5 if number < 12 else 0.19,
        limiter="warps" if number < 12 else "registers", code_bytes=4096,
    )  # fmt: skip


def launch(number: int) -> Launch:
    """One launch of the row kernel."""
    return Launch(
        kernel="rms_kernel", grid=(4096, 1, 1), arguments={}, constexprs={"BLOCK": 8192},
        num_warps=8, num_stages=2, num_ctas=1, line=36, cubin_sha256="0" * 64,
        static=static(number), compile_seconds=0.4,
    )  # fmt: skip


def traffic(*, loaded: int = 0, stored: int = 0) -> Traffic:
    """Of a tensor of half of BYTES."""
    return Traffic(loaded=loaded, stored=stored, unique_sectors=1, footprint=BYTES // 2)


def trace(number: int) -> LaunchTrace:
    """What the interpreter counted: the last version reads its input once."""
    reads = 1 if number >= 12 else 2
    return LaunchTrace(
        kernel="rms_kernel", grid=(4096, 1, 1), programs=4096, sampled=4096,
        traffic={"x_ptr": traffic(loaded=BYTES * reads // 2), "y_ptr": traffic(stored=BYTES // 2)},
        masked_fraction=0.0, sector_efficiency=1.0, dot_flops={}, vector_flops=1e9,
        special_ops=4096, reduced_elements=1e8, atomics=0,
    )  # fmt: skip


def time_of(micro: float, kind: Kind) -> Time:
    """A time with its parts."""
    parts = {"dram": micro * 0.91, "special": micro * 0.12, "launch": 4.0, "floor": 219.8}
    return Time(kind=kind, microseconds=micro, device="sm90", detail=parts)


def report(
    number: int, ratio: float | None, stage: Stage, verdict: Verdict, *, kind: Kind
) -> GateReport:
    """A gate's report on one version."""
    says = {
        Stage.POLICY: "the candidate keeps the address of its last output between calls",
        Stage.COMPILE: "ptxas: shared memory 240 KiB, the target has 227 KiB",
        Stage.CORRECTNESS: "worst error 3.4 of the bound on case subnormal, shape small",
        Stage.PROFILE: "9 calls over 3 shapes, worst error 0.12 of the bound",
    }
    passed = verdict is Verdict.ACCEPTED
    seconds = {Stage.POLICY: 0.03, Stage.COMPILE: 0.6, Stage.CORRECTNESS: 1.4, Stage.PROFILE: 0.8}
    stages = []
    for known in Stage:
        before = list(Stage).index(known) < list(Stage).index(stage)
        outcome = Outcome.PASSED if before or (known is stage and passed) else Outcome.FAILED
        if not before and known is not stage:
            outcome = Outcome.SKIPPED
        finding = Finding(code=CODES[known], says=says[known], line=21)
        stages.append(
            StageReport(
                stage=known, outcome=outcome, says=says[known],
                findings=(finding,) if outcome is Outcome.FAILED else (),
                seconds=0.0 if outcome is Outcome.SKIPPED else seconds[known],
            )
        )  # fmt: skip
    built = stage in {Stage.CORRECTNESS, Stage.PROFILE}
    micro = SEED_US / ratio if ratio else 0.0
    return GateReport(
        verdict=verdict, stage=stage, code="" if passed else CODES[stage], says=says[stage],
        stages=tuple(stages), rung=1, kernel_sha256=f"{number:064x}", target="sm90",
        device="cpu" if kind is Kind.MODELED else "NVIDIA H200",
        time=time_of(micro, kind) if ratio else None,
        speed=None,
        launches=(launch(number),) if built else (), traces=(trace(number),) if built else (),
        gpu_seconds=0.0 if kind is Kind.MODELED else 0.4,
    )  # fmt: skip


def transition(step: tuple, *, kind: Kind = Kind.MODELED) -> Transition:
    """The full record of one of STEPS."""
    number, parent, title, card, ratio, answer, stage = step
    verdict = Verdict.ACCEPTED if answer is not Answer.REJECTED else Verdict.REJECTED
    by = {Answer.PENDING: "nobody", Answer.VETOED: "person"}.get(answer, "gate")
    reason = "evict_last starves the other stream" if answer is Answer.VETOED else ""
    plan = None if parent is None else structs.replace(PLAN, card=card)
    if plan is not None and number != 12:
        plan = structs.replace(plan, title=title[0].upper() + title[1:])
    return Transition(
        number=number, parent=parent, plan=plan,
        gate=report(number, ratio, stage, verdict, kind=kind),
        decision=Decision(answer=answer, by=by, reason=reason, at="2025-06-01T21:04:05.000+00:00"),
        cost=Cost(wall_seconds=2.9, gpu_seconds=0.0 if kind is Kind.MODELED else 0.4),
        created="2025-06-01T21:04:02.000+00:00",
        origin="shipped seed" if parent is None else f"edit {card.split('/')[1]}",
    )  # fmt: skip


def version(step: tuple, *, kind: Kind = Kind.MODELED) -> Version:
    """The row of one of STEPS."""
    number, parent, title, card, ratio, answer, stage = step
    parents = {s[0]: s[4] for s in STEPS}
    above = parents.get(parent) if parent is not None else None
    return Version(
        number=number, parent=parent, commit=f"{number + 0x4C1E0A:07x}" + "0" * 33, title=title,
        verdict=Verdict.REJECTED if answer is Answer.REJECTED else Verdict.ACCEPTED, stage=stage,
        code="" if answer is not Answer.REJECTED else CODES[stage], answer=answer,
        speed_vs_seed=speed(ratio, kind=kind) if ratio else None,
        speed_vs_parent=speed(ratio / above, kind=kind) if ratio and above else None,
        card=card, best=number == 9, accepted_line=answer is Answer.ACCEPTED,
    )  # fmt: skip
