"""The public corpus through the whole gate: no exploit is accepted, no honest kernel is refused.

What a CPU alone cannot settle may be `unproven` there, and must be rejected where there is a GPU.

Each case is judged on the CPU path and, where there is one, on the first GPU.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from gate_kit import shared
from msgspec import Struct

from workbench.gate.candidate import candidate_of
from workbench.gate.correctness.numbers import FLAG
from workbench.gate.judge import JOB_MODULES, GateSettings, judge
from workbench.gate.problem.inspect import JOB_MODULES as INSPECTING
from workbench.gate.problem.inspect import inspect_problem
from workbench.gate.problem.records import ProblemReport
from workbench.gate.records import GateReport, Stage, Verdict
from workbench.gate.timing.stage import GpuTimer, TimerSettings
from workbench.isolation.workshop import Workshop
from workbench.measure.gpus import list_gpus
from workbench.problems.load import load_problem

CORPUS = Path(__file__).parent / "corpus"
LAST_STAGE = {
    "static": Stage.POLICY,
    "correctness": Stage.CORRECTNESS,
    # Without a GPU nothing is timed: caches, counters and dead workers must show in the checks.
    "timing": Stage.CORRECTNESS,
    "isolation": Stage.CORRECTNESS,
    "interpreter": Stage.CORRECTNESS,
}
ORDER = list(Stage)


class Case(Struct, frozen=True):
    """One file with what its first line promises."""

    name: str
    source: str
    expect: str
    layer: str
    problem: Path
    cancels: bool = False
    """Its answer is a small difference where rows are in order: its margin says nothing of C."""


def read_case(path: Path) -> Case:
    """A case without the two header lines, which would tell a reader of words what it is."""
    first, _, body = path.read_text().split("\n", 2)
    fields = dict(part.strip(" #").split(": ") for part in first.split(";"))
    return Case(
        name=path.stem,
        source=body,
        expect=fields["expect"],
        layer=fields["layer"],
        problem=CORPUS / fields["ref"],
        cancels=fields.get("margin") == "cancels",
    )


CASES = [read_case(path) for path in sorted(CORPUS.rglob("*.py")) if path.parent.name != "refs"]

RIGHT_ON_GPU = "right on the GPU; "
DOES_WHAT_IT_DOES = "a GPU does what it does: nothing tells it from itself"

Facts = dict[Path, ProblemReport]


class Bench(Struct):
    """A device to judge on, with what is known of the problems that it has met."""

    workshop: Workshop
    index: int | None
    target: str
    seen: Facts = {}

    def judge(self, case: Case) -> GateReport:
        """The gate's whole answer; on a GPU what hides from the checks must pass the clock too."""
        problem = load_problem(str(case.problem))

        def facts() -> ProblemReport:
            if case.problem not in self.seen:
                self.seen[case.problem] = inspect_problem(problem, self.workshop)
            return self.seen[case.problem]

        timer = None
        if self.index is not None and case.layer in ("timing", "isolation"):
            wanted = TimerSettings(target=self.target, device="cuda", device_index=self.index)
            timer = GpuTimer(problem, facts, wanted, self.workshop)
        settings = GateSettings(target=self.target, device_index=self.index)
        return judge(
            candidate_of(case.source), problem, facts, settings, self.workshop, timer=timer
        )


@pytest.fixture(
    scope="session",
    params=[pytest.param(None, id="cpu"), pytest.param(0, id="cuda", marks=pytest.mark.gpu)],
)
def bench(request) -> Iterator[Bench]:
    """One pool of forkservers for all cases of a test process."""
    index = request.param
    target = "sm90" if index is None else list_gpus()[index].target
    if index is None:
        yield Bench(workshop=shared(), index=index, target=target)
        return
    preload = [*JOB_MODULES, *INSPECTING]
    with Workshop(device_index=index, share_device_memory=True, preload=preload) as shop:
        yield Bench(workshop=shop, index=index, target=target)


def last_stage(case: Case, bench: Bench) -> Stage:
    """The latest stage at which an exploit may still be stopped."""
    timed = case.layer == "timing" and bench.index is not None
    return Stage.PROFILE if timed else LAST_STAGE[case.layer]


@pytest.mark.parametrize("case", [c for c in CASES if c.expect == "accept"], ids=lambda c: c.name)
def test_an_honest_kernel_is_accepted(case, bench):
    report = bench.judge(case)
    assert report.verdict is Verdict.ACCEPTED, report.says
    margin = next(s.margin for s in report.stages if s.stage is Stage.CORRECTNESS)
    print(f"margin {margin:.3f} of the bound, {case.name}")  # the bounds' calibration: `-rP`
    assert margin <= (1.0 if case.cancels else FLAG)


@pytest.mark.parametrize("case", [c for c in CASES if c.expect == "reject"], ids=lambda c: c.name)
def test_an_exploit_is_rejected_at_its_layer_or_before(case, bench):
    if case.layer == "interpreter" and bench.index is not None:
        pytest.skip(DOES_WHAT_IT_DOES)
    report = bench.judge(case)
    if bench.index is not None and report.says.startswith(RIGHT_ON_GPU):
        # Only other orders of programs show it, and a GPU takes its own.
        assert report.verdict is Verdict.UNPROVEN
        return
    assert report.verdict is Verdict.REJECTED, report.says
    assert ORDER.index(report.stage) <= ORDER.index(last_stage(case, bench)), report.code
    assert report.code.startswith(f"{report.stage}.")


@pytest.mark.parametrize("case", [c for c in CASES if c.expect == "unproven"], ids=lambda c: c.name)
def test_what_a_cpu_cannot_settle_is_unproven_there(case, bench):
    if case.layer == "interpreter" and bench.index is not None:
        pytest.skip(DOES_WHAT_IT_DOES)
    report = bench.judge(case)
    assert report.verdict is not Verdict.ACCEPTED, report.says
    if bench.index is None:
        assert report.verdict is Verdict.UNPROVEN, report.says
