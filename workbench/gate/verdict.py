"""The verdict that follows from the stages' outcomes, and the stage that decides it."""

from collections.abc import Iterable

from workbench.gate.records import Outcome, StageReport, Verdict


def verdict_of(reports: Iterable[StageReport]) -> tuple[Verdict, StageReport]:
    """The verdict and its stage: the failed one, else the first unproven one, else the last one
    asked.

    At least one stage was asked.
    """
    asked = [report for report in reports if report.outcome is not Outcome.SKIPPED]
    for outcome, verdict in (
        (Outcome.FAILED, Verdict.REJECTED),
        (Outcome.UNPROVEN, Verdict.UNPROVEN),
    ):
        for report in asked:
            if report.outcome is outcome:
                return verdict, report
    return Verdict.ACCEPTED, asked[-1]
