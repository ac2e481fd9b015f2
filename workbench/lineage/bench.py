"""The gate as a walk uses it, and the expected cost of a verdict, so that none exceeds a limit."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Protocol

from msgspec import Struct

from workbench.gate.records import Blame, GateReport, Stage, Verdict
from workbench.lineage.records import Attempt, Expert, Line
from workbench.measure.records import Kind, Speed

_RECENT = 5
"""Verdicts whose median is the expected cost of the next one; ours."""


class Looked(Protocol):
    """A kernel after policy and compile. Exactly one of the two methods may be called, once."""

    report: GateReport
    """Report of policy and compile."""

    def judged(self) -> GateReport:
        """The report with correctness, and with the speed against the state."""

    def proven(self) -> GateReport:
        """The report with correctness alone, since the speed is known."""


class Bench(Protocol):
    """Judges kernels for a walk. Methods block and never raise for what a kernel does."""

    def judge(self, source: str) -> GateReport:
        """The gate's report, without a speed against another kernel."""

    def look(self, source: str, state: str, before: GateReport, floor: float | None) -> Looked:
        """A kernel that will be compared with a state, whose own report is `before`.

        It may be no slower than `floor` of the state, which the paired decision tests; without a
        floor its speed is measured in one run of pairs and decides nothing.
        """

    def operations(self, report: GateReport) -> Mapping[str, int]:
        """Counts of TTGIR operations of a judged kernel, over all launches.

        Empty where its text was not kept. See `restored.operations`.
        """

    def pairs(self, source: str, state: str) -> Speed | None:
        """The speedup of one kernel over another in one run of pairs; both have passed the gate.

        None where times are modeled.
        """


class Price(Struct, frozen=True, kw_only=True):
    """What a verdict costs, by recent ones."""

    wall_seconds: float
    gpu_seconds: float
    timing_wall_seconds: float
    """The part of it in the profile stage: what pairs without a verdict cost."""
    timing_gpu_seconds: float

    def times(self, verdicts: int) -> tuple[float, float]:
        """Seconds and GPU-seconds of that many verdicts, and of the pairs at a walk's end."""
        return (
            verdicts * self.wall_seconds + self.timing_wall_seconds,
            verdicts * self.gpu_seconds + self.timing_gpu_seconds,
        )


def price_of(lines: Sequence[Line]) -> Price:
    """The median cost of recent verdicts; the expert's own before there are others.

    Only completed verdicts count. For an empty walk all values are 0.
    """
    reports = [report for line in lines for report in _reports(line)]
    later = [report for report in reports[1:] if report.verdict is Verdict.ACCEPTED]
    recent = (later or reports)[-_RECENT:]
    if not recent:
        return Price(
            wall_seconds=0.0, gpu_seconds=0.0, timing_wall_seconds=0.0, timing_gpu_seconds=0.0
        )
    timed = [r for r in recent if r.time is not None and r.time.kind is Kind.MEASURED]
    return Price(
        wall_seconds=median(sum(s.seconds for s in report.stages) for report in recent),
        gpu_seconds=median(report.gpu_seconds for report in recent),
        timing_wall_seconds=median(map(_profile_seconds, timed)) if timed else 0.0,
        timing_gpu_seconds=median(sum(s.gpu_seconds for s in r.samples) for r in timed)
        if timed
        else 0.0,
    )


def _reports(line: Line) -> tuple[GateReport, ...]:
    if isinstance(line, Expert):
        return (line.report,)
    if isinstance(line, Attempt):
        both = (line.predecessor, line.roundtrip)
        return tuple(r for r in both if r is not None and r.report(Stage.PROFILE) is not None)
    return ()


def _profile_seconds(report: GateReport) -> float:
    stage = report.report(Stage.PROFILE)
    return 0.0 if stage is None else stage.seconds


def machine_failed(report: GateReport) -> bool:
    """Whether a verdict is undecided because of the machine, not the kernel."""
    found = [f for stage in report.stages for f in stage.findings if f.code == report.code]
    blamed = bool(found) and all(f.blame is Blame.MACHINE for f in found)
    return report.verdict is Verdict.UNPROVEN and blamed
