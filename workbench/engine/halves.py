"""On a GPU a step is timed before it is compared: if it is no faster, it need not be right.

The first of the timer's two runs comes first. A step without a gain is refused there, and costs no
comparison. A step with a gain goes through the whole gate, in which only the second run is left.
"""

from collections.abc import Callable

from msgspec import structs

from workbench.engine.climbing import SLOW
from workbench.engine.refusing import uncompared
from workbench.gate.judge import Told
from workbench.gate.records import GateReport, Outcome, Stage, StageReport
from workbench.gate.timing.report import FOUND_ONCE
from workbench.measure.records import Speed

_NOT_ASKED = StageReport(
    stage=Stage.CORRECTNESS,
    outcome=Outcome.SKIPPED,
    says="not compared: it is no faster, whatever it computes (`workbench gate` compares it)",
)


Tell = Callable[[Told], None]


def gated(
    first: Callable[[Tell], GateReport],
    whole: Callable[[Speed | None], GateReport],
    rung: int,
    ear: Tell,
) -> GateReport:
    """The verdict on a step: `first` runs the first timing alone, `whole` the gate at `rung`.

    `whole` gets the gain that remains to be confirmed, or None if the first run gave no answer, and
    then answers itself. Steps that are accepted, or refused for any reason but their speed, have
    been through the whole gate.
    """
    found = first(lambda told: ear(told) if told.total else None)
    if found.stage is Stage.PROFILE and found.code in SLOW:
        return _not_compared(found, rung, ear)
    report = whole(found.speed if found.code == FOUND_ONCE else None)
    return structs.replace(
        report,
        stages=tuple(_with_first(stage, found) for stage in report.stages),
        samples=(*found.samples, *report.samples),
        gpu_seconds=found.gpu_seconds + report.gpu_seconds,
    )


def _with_first(stage: StageReport, first: GateReport) -> StageReport:
    """A stage report that includes the seconds of its first attempt."""
    before = first.report(stage.stage)
    if stage.stage is not Stage.PROFILE or before is None:
        return stage
    parts = dict(before.parts)
    for part, seconds in stage.parts.items():
        parts[part] = parts.get(part, 0.0) + seconds
    return structs.replace(stage, seconds=before.seconds + stage.seconds, parts=parts)


def _not_compared(first: GateReport, rung: int, ear: Tell) -> GateReport:
    """The verdict on a step that the first run refused, announced stage by stage."""
    before = [one for one in first.stages if one.stage is not Stage.PROFILE]
    last = [one for one in first.stages if one.stage is Stage.PROFILE]
    for one in (_NOT_ASKED, *last):
        ear(Told(one.stage, one))
    says = uncompared(first.says)
    return structs.replace(first, says=says, stages=(*before, _NOT_ASKED, *last), rung=rung)
