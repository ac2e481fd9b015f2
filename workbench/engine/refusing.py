"""A gate report that ends early: the stages asked so far, and the finding that ends it."""

from msgspec import structs

from workbench.gate.records import Finding, GateReport, Outcome, Stage, StageReport, Verdict


def refused(report: GateReport, stage: Stage, finding: Finding, *, rung: int) -> GateReport:
    """The report of a candidate that is refused at `stage`, whatever that stage found before.

    `rung` is how far the gate was asked. Stages that were not asked, and all later ones, count as
    skipped, and nothing that they had found is kept, times and traces least of all. One that is
    refused for its speed and was never compared is said to be so.
    """
    order = list(Stage)
    before = [report.report(one) or _skipped(one) for one in order[: order.index(stage)]]
    right = any(s.stage is Stage.CORRECTNESS and s.outcome is Outcome.PASSED for s in before)
    if stage is Stage.PROFILE and not right:
        finding = structs.replace(finding, says=uncompared(finding.says))
    was = report.report(stage) or StageReport(stage=stage, outcome=Outcome.FAILED, says="")
    last = structs.replace(
        was,
        outcome=Outcome.FAILED,
        says=finding.says,
        findings=(finding, *was.findings),
    )
    after = [_skipped(one) for one in order[order.index(stage) + 1 :]]
    return GateReport(
        verdict=Verdict.REJECTED,
        stage=stage,
        code=finding.code,
        says=finding.says,
        stages=(*before, last, *after),
        rung=rung,
        kernel_sha256=report.kernel_sha256,
        target=report.target,
        device=report.device,
        toolchain=report.toolchain,
        replay_seed=report.replay_seed,
        work=report.work,
        launches=report.launches,
        gpu_seconds=report.gpu_seconds,
    )


def uncompared(says: str) -> str:
    """Why a candidate is refused, where nobody knows whether it is right."""
    return f"{says}; not compared"


def _skipped(stage: Stage) -> StageReport:
    return StageReport(stage=stage, outcome=Outcome.SKIPPED, says="it was given up without this")
