"""Whether a candidate computes what the reference computes: the third stage of the gate.

The judge runs here. It draws the seeds, passes tensors between a reference worker and a candidate
worker as bytes (handles on a GPU) and decides; it imports neither torch nor the candidate. The
protocol is in `cases` (which calls), `structure` and `numbers` (which rules).
"""

import os
import time
from contextlib import ExitStack

from msgspec import structs

from workbench.errors import WorkbenchError
from workbench.gate.background import Background, Workers
from workbench.gate.correctness.cases import SEED_BYTES, Effort
from workbench.gate.correctness.full.stage import FullLook
from workbench.gate.correctness.judging import (
    CorrectnessSettings,
    Findings,
    HasSource,
    Listen,
    ShapeEffort,
    nobody,
)
from workbench.gate.gpu_workers import REFERENCE, spare
from workbench.gate.parts import Parts
from workbench.gate.problem.records import ProblemReport
from workbench.gate.records import Blame, Finding, Outcome, StageReport
from workbench.isolation.records import Flavor, Limits
from workbench.isolation.worker import Worker
from workbench.isolation.workshop import Workshop
from workbench.problems.records import Problem

__all__ = ["CorrectnessSettings", "ShapeEffort", "run", "usual_shapes", "with_full"]

JOB_MODULES = (
    "workbench.gate.correctness.reference_job",
    "workbench.gate.correctness.candidate_job",
    "workbench.gate.correctness.exercise_job",
)
"""Modules to preload in a workshop's forkservers."""


def usual_shapes(
    problem: Problem, *, device_index: int | None, rung: int, facts: ProblemReport | None = None
) -> tuple[ShapeEffort, ...]:
    """The calls of each rung (ours).

    In the interpreter the smallest shape gets all of them; a rung above 1 adds a few calls at the
    next shape if `facts` say that it is cheap. On a GPU all shapes except the full one get all
    calls, the full one a few; rung 0 uses the smallest alone.
    """
    names = [shape.name for shape in problem.shapes]
    first = ShapeEffort(shape=names[0], effort=Effort.ALL)
    if rung == 0 or len(names) == 1:
        return (first,)
    if device_index is None:
        more = (ShapeEffort(shape=names[1], effort=Effort.FEW),)
        return (first, *more) if rung > 1 and _cheap(facts, names[1]) else (first,)
    middle = [ShapeEffort(shape=name, effort=Effort.ALL) for name in names[1:-1]]
    return (first, *middle, ShapeEffort(shape=names[-1], effort=Effort.FEW))


def _cheap(facts: ProblemReport | None, name: str) -> bool:
    """Whether a shape takes the interpreter seconds only: 1 MiB and 100 MFLOP (ours)."""
    work = None if facts is None else facts.shape(name).work
    return work is not None and work.bytes <= 1 << 20 and work.flops <= 1e8


def run(
    candidate: HasSource,
    problem: Problem,
    settings: CorrectnessSettings,
    workshop: Workshop,
    listen: Listen = nobody,
) -> StageReport:
    """Judge the candidate's outputs at every shape that `settings` names.

    Stops at the first call that is wrong. On a GPU the interpreter checks bounds and races at the
    smallest shape meanwhile, where it can run the kernels; what it finds counts where the GPU found
    nothing. Never raises for what a candidate or a problem does: a fault of the reference leaves
    the stage unproven. Raises WorkbenchError when no worker starts.
    """
    began = time.monotonic()
    seed = settings.seed or os.urandom(SEED_BYTES)
    settings = structs.replace(settings, seed=seed)
    if settings.device_index is None:
        sitting = _in_the_interpreter(candidate, problem, settings, workshop, listen)
    else:
        if not workshop.shares_device_memory:
            raise WorkbenchError("correctness on a GPU needs a workshop that shares device memory")
        sitting = _on_the_gpu(candidate, problem, settings, workshop, listen)
    judge, parts, isolation = sitting
    report = judge.report(time.monotonic() - began, isolation)
    return structs.replace(report, parts=parts.told())


_Sat = tuple["Findings", Parts, str]
"""What was found, how the time was spent, and what confined the candidate."""


def _in_the_interpreter(
    candidate: HasSource,
    problem: Problem,
    settings: CorrectnessSettings,
    workshop: Workshop,
    listen: Listen,
) -> _Sat:
    judge, parts = Findings(candidate, problem, settings, listen), Parts()
    asked = (REFERENCE, (Flavor.INTERPRET, _limits(settings)))
    with ExitStack() as stack:
        with parts.of("starting workers"):
            reference, tried = stack.enter_context(workshop.workers(*asked))
        judge.try_all(reference, tried)
        parts.add_calls("reference", reference.spent)
        parts.add_calls("candidate", tried.spent)
        return judge, parts, tried.isolation


def _on_the_gpu(
    candidate: HasSource,
    problem: Problem,
    settings: CorrectnessSettings,
    workshop: Workshop,
    listen: Listen,
) -> _Sat:
    """The calls on the GPU, and in parallel the interpreter's check with a reference of its own."""
    judge, parts = Findings(candidate, problem, settings, listen), Parts()

    def look(*workers: Worker) -> Findings:
        looked = Findings(candidate, problem, settings)
        looked.look_for_bad_accesses(*workers)
        return looked

    asked = (REFERENCE, (Flavor.CUDA, _limits(settings)))
    looking = (REFERENCE, (Flavor.INTERPRET, _limits(settings)))

    def look_beside(shop: Workers) -> Findings:
        with shop.workers(*looking) as workers:
            return look(*workers)

    with ExitStack() as stack:
        beside = stack.enter_context(Background(workshop, look_beside))
        with parts.of("starting workers"):
            reference, tried = stack.enter_context(workshop.workers(*asked))
        # During the calls, for the timing that follows.
        spare(workshop)
        judge.try_all(reference, tried)
        if not judge.findings:
            with parts.of("waiting for the interpreter"):
                looked = _looked(beside)
            if looked is None:
                # The GPU may not hold two references: again, with the existing one.
                looked = look(reference, stack.enter_context(workshop.worker(*looking[1])))
            judge.take_over(looked)
            parts.add("interpreter, beside", beside.seconds)
        parts.add_calls("reference", reference.spent)
        parts.add_calls("candidate", tried.spent)
        return judge, parts, tried.isolation


def _looked(beside: Background[Findings]) -> Findings | None:
    """The result of the interpreter's check; None where it had no reference."""
    try:
        looked = beside.result()
    except WorkbenchError:
        # No worker started. If that persists, the next stage reports it.
        return None
    return None if looked.no_reference else looked


def _limits(settings: CorrectnessSettings) -> Limits:
    return Limits(wall_seconds=settings.call_seconds, memory_bytes=settings.memory_bytes)


def with_full(report: StageReport, looked: FullLook) -> StageReport:
    """A report extended by the result at the full shape."""
    if not looked.says and not looked.findings:
        return report
    if looked.findings:
        failed = any(finding.blame is Blame.CANDIDATE for finding in looked.findings)
        return structs.replace(
            report,
            outcome=Outcome.FAILED if failed else Outcome.UNPROVEN,
            says=looked.findings[0].says,
            findings=(*looked.findings, *report.findings),
        )
    there = looked.evidence.get("margin")
    margins = [m for m in (report.margin, there) if isinstance(m, float)]
    note = Finding(
        code="correctness.full-shape",
        says=looked.says,
        blame=Blame.MACHINE,
        evidence=looked.evidence,
    )
    says = f"{report.says}; {looked.says}" if report.outcome is Outcome.PASSED else report.says
    margin = max(margins, default=None)
    return structs.replace(report, says=says, findings=(*report.findings, note), margin=margin)
