"""What the interpreter finds at the full shape while a GPU compares and times.

A GPU runs the programs of a launch in an order of its own, nearly the same in every call. Kernels
whose answer rests on that order look right there; the interpreter takes other orders.
"""

from msgspec import Struct, structs

from workbench.gate import profile
from workbench.gate.background import Background, Workers
from workbench.gate.candidate import Candidate
from workbench.gate.compile import Compiled
from workbench.gate.correctness.full import stage as full_shape
from workbench.gate.correctness.full.looks import FullLook, Setting
from workbench.gate.correctness.judging import ONLY_INTERPRETER_SEES
from workbench.gate.problem.records import ProblemReport
from workbench.gate.records import Blame, Finding, Outcome, StageReport
from workbench.isolation.workshop import Workshop
from workbench.kernels.records import LaunchTrace
from workbench.kernels.requests import Traced
from workbench.problems.records import Problem


class Aside(Struct, frozen=True, kw_only=True):
    """What was found aside."""

    traced: Traced | Finding
    """The launches at the full shape, or why they cannot be traced."""
    doubts: tuple[Finding, ...] = ()
    """What the interpreter got wrong at the full shape."""

    @property
    def traces(self) -> tuple[LaunchTrace, ...]:
        """Of the launches at the full shape; empty where they cannot be traced."""
        return profile.launches_of(self.traced)

    def on(self, report: StageReport) -> StageReport:
        """A comparison's report with the doubts, which leave it unproven."""
        if not self.doubts:
            return report
        return structs.replace(
            report,
            outcome=Outcome.UNPROVEN,
            says=self.doubts[0].says,
            findings=(*self.doubts, *report.findings),
        )


def looking_aside(
    candidate: Candidate,
    problem: Problem,
    facts: ProblemReport,
    compiled: Compiled,
    setting: Setting,
    workshop: Workshop,
    *,
    compared: bool,
) -> Background[Aside]:
    """Look at the full shape in the background while the context's body runs.

    Only for traces unless it is to be `compared`.
    """

    def look(shop: Workers) -> Aside:
        looked = FullLook()
        if compared:
            looked = full_shape.look(candidate, problem, facts, setting, shop)
        traced = looked.traced
        if traced is None:
            traced = profile.traced_at(
                candidate, compiled, facts.full, setting.target, shop, seed=setting.seed
            )
        return Aside(traced=traced, doubts=_doubts(looked))

    return Background(workshop, look)


def _doubts(looked: FullLook) -> tuple[Finding, ...]:
    """What is wrong in the interpreter alone.

    Only a doubt, as the GPU has agreed with the reference. Doubts about what a sample leaves open
    do not count: the GPU has run all programs.
    """
    return tuple(
        structs.replace(
            finding,
            says=f"right on the GPU; with its programs in other orders, {finding.says}",
            blame=Blame.MACHINE,
        )
        for finding in looked.findings
        if finding.blame is Blame.CANDIDATE or finding.code in ONLY_INTERPRETER_SEES
    )
