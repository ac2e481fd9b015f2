"""GPUs of a fleet that gate nothing, healthy and sick, for tests of the engine."""

from engine_parts import report
from msgspec import structs

from workbench.engine.fleet import Station
from workbench.gate import health
from workbench.gate.records import GateReport, Stage, Verdict
from workbench.measure.gpuhealth import Sick

SECONDS = 20.0
"""For another thread that never comes."""


def stations(count: int) -> list[Station]:
    return [Station(index=n, name=f"cuda:{n} GPU-{n}", workshop=None) for n in range(count)]


def sick(station: Station) -> GateReport:
    """What the gate answers on a GPU that was taken out."""
    found = health.refusal(
        Stage.CORRECTNESS, Sick(uuid=station.name, reason="the canary is wrong", since="today")
    )
    return structs.replace(
        report(verdict=Verdict.REJECTED), stages=(found,), verdict=Verdict.UNPROVEN, gpu_seconds=1.0
    )
