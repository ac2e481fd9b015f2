"""A session of many transitions, as a long search would leave it, for benchmarks."""

from pathlib import Path

from workbench.gate.records import GateReport, Outcome, Stage, StageReport, Verdict
from workbench.measure.records import Kind, Speed, Time
from workbench.session.records import (
    Answer,
    Budget,
    Cost,
    Decision,
    Mode,
    SessionSettings,
    Transition,
)
from workbench.session.store import SessionStore
from workbench.skills.records import Check, Plan, Truth

_CREATED = "2026-01-01T00:00:00+00:00"


def make_long_session(folder: Path, count: int) -> Path:
    """Write `count` transitions through the store; every fourth is accepted. Returns the folder."""
    settings = SessionSettings(
        name=folder.name,
        problem="softmax",
        mode=Mode.AUTO,
        device="cpu",
        target="sm90",
        budget=Budget(),
        created=_CREATED,
    )
    store = SessionStore.create(folder, settings, "class Model: ...\n")
    parent = None
    for number in range(count):
        accepted = number % 4 == 0
        transition = _transition(number, parent, accepted=accepted)
        store.record(transition, f"# kernel {number}\n" * 60, best=accepted)
        if accepted:
            parent = number
    store.tidy()
    return folder


def _transition(number: int, parent: int | None, *, accepted: bool) -> Transition:
    report = GateReport(
        verdict=Verdict.ACCEPTED if accepted else Verdict.REJECTED,
        stage=Stage.PROFILE,
        code="" if accepted else "profile.not-faster",
        says="1.01x" if accepted else "not faster",
        stages=tuple(
            StageReport(stage=stage, outcome=Outcome.PASSED, says="passed", seconds=0.1)
            for stage in Stage
        ),
        rung=2,
        kernel_sha256=f"{number:064x}",
        target="sm90",
        device="cpu",
        time=Time(kind=Kind.MODELED, microseconds=1e6 / (number + 1), device="sm90"),
        speed=Speed(kind=Kind.MODELED, ratio=1.01),
    )
    plan = Plan(
        card="num-warps",
        title=f"{1 << number % 5} warps",
        intent="hide latency",
        kernel="kernel",
        edit="num-warps",
        parameters={"num_warps": 1 << number % 5},
        checks=(Check(says="few warps", when="launch.num_warps < 8", truth=Truth.YES, because=""),),
    )
    answer = Answer.ACCEPTED if accepted else Answer.REJECTED
    return Transition(
        number=number,
        parent=parent,
        plan=None if parent is None else plan,
        gate=report,
        decision=Decision(answer=answer, by="gate", at=_CREATED),
        cost=Cost(wall_seconds=1.0),
        created=_CREATED,
        origin="seed" if parent is None else "edit num-warps",
    )
