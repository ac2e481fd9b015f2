"""What the profile stage refuses to model, and of a speed's interval which end decides."""

from gate_kit import CANDIDATE, workshop

from workbench.gate.candidate import candidate_of
from workbench.gate.compile import Compiled
from workbench.gate.problem.records import ShapeReport
from workbench.gate.profile import not_faster, run_modeled
from workbench.gate.records import Blame, Outcome, Stage, StageReport
from workbench.kernels.records import Launch, LaunchTrace, StaticProfile
from workbench.kernels.requests import Recorded, Traced
from workbench.measure.records import Kind, Speed

__all__ = ["workshop"]

STATIC = StaticProfile(
    registers=32, spill_store_bytes=0, spill_load_bytes=0, stack_bytes=0, shared_bytes=0,
    threads=128, programs_per_sm=16, occupancy=1.0, limiter="threads", code_bytes=160,
)  # fmt: skip


def launched(kernel: str) -> Launch:
    return Launch(
        kernel=kernel, grid=(4, 1, 1), arguments={}, constexprs={}, num_warps=4, num_stages=3,
        num_ctas=1, line=1, cubin_sha256="00", static=STATIC, compile_seconds=0.0,
    )  # fmt: skip


def traced(kernel: str) -> LaunchTrace:
    return LaunchTrace(
        kernel=kernel, grid=(4, 1, 1), programs=4, sampled=4, traffic={}, masked_fraction=0.0,
        sector_efficiency=1.0, dot_flops={}, vector_flops=64.0, special_ops=0.0,
        reduced_elements=0.0, atomics=0.0,
    )  # fmt: skip


def modeled(workshop, compiled: list[str], interpreted: list[str]) -> StageReport:
    """The stage's report on kernels that were compiled, and others that ran in the interpreter."""
    full = ShapeReport(shape="full")
    return run_modeled(
        candidate_of(CANDIDATE),
        Compiled(
            report=StageReport(stage=Stage.COMPILE, outcome=Outcome.PASSED, says=""),
            recorded=Recorded(launches=tuple(map(launched, compiled))),
        ),
        (full, full),
        "sm90",
        workshop,
        parent=None,
        threshold=1.0,
        traced=Traced(traces=tuple(map(traced, interpreted)), compared=True),
    ).report


def test_what_the_interpreter_launched_instead_of_the_compiled_kernels_is_not_modeled(workshop):
    report = modeled(workshop, ["mine", "sum"], ["mine", "other"])
    assert report.outcome is Outcome.UNPROVEN
    (doubt,) = report.findings
    assert (doubt.code, doubt.blame) == ("profile.launches-differ", Blame.MACHINE)
    assert "launches mine, other when interpreted and mine, sum when compiled" in doubt.says
    fewer = modeled(workshop, ["mine"], [])
    assert "launches nothing when interpreted" in fewer.says
    alike = modeled(workshop, ["mine", "sum"], ["mine", "sum"])
    assert "profile.launches-differ" not in [finding.code for finding in alike.findings]


def test_a_gain_counts_by_the_lower_end_of_its_interval_and_a_modeled_one_by_itself():
    wide = Speed(kind=Kind.MEASURED, ratio=1.05, low=0.99, high=1.11)
    assert not_faster(wide, 1.01).code == "profile.not-faster"
    sure = Speed(kind=Kind.MEASURED, ratio=1.05, low=1.02, high=1.08)
    assert not_faster(sure, 1.01) is None
    assert not_faster(Speed(kind=Kind.MODELED, ratio=1.05), 1.01) is None
    slower = Speed(kind=Kind.MEASURED, ratio=0.9, low=0.85, high=0.95)
    assert not_faster(slower, 1.01).code == "profile.slower"
