"""On a GPU smoke gives up what it proves slower or finds wrong, and never keeps anything."""

import pytest
from msgspec import structs
from session_kit import step, transition
from test_engine_rungs import passed, shop, sitting

from workbench.engine.history import History
from workbench.engine.memory import Memory
from workbench.engine.twins import twin_of
from workbench.gate.records import (
    Finding,
    GateReport,
    Outcome,
    Stage,
    StageReport,
    Verdict,
)
from workbench.measure.records import Kind, Speed, Time
from workbench.search.paying import Worth
from workbench.session.records import Answer, RungVisit
from workbench.session.trailers import ladder_says

__all__ = ["shop"]

PAYS = Worth(pays=True, reason="it takes 1.0 GPU-s of each and spares 9.0")
NOT = Worth(pays=False, reason="not asked: it takes 9.0 GPU-s of each and spares 1.0")


def looked(ratio: float, *, wrong: bool = False, unproven: bool = False) -> GateReport:
    """What smoke finds when the smallest shape is compared before its pairs."""
    base = transition(1, 0, Answer.REJECTED).gate
    correct = passed(Stage.CORRECTNESS)
    if wrong or unproven:
        outcome = Outcome.FAILED if wrong else Outcome.UNPROVEN
        finding = Finding(code="correctness.error-above-bound", says="wrong")
        correct = structs.replace(correct, outcome=outcome, findings=(finding,))
    slow = Finding(code="profile.not-faster", says="not 1000 times faster")
    profile = StageReport(stage=Stage.PROFILE, outcome=Outcome.FAILED, says="", findings=(slow,))
    timed = not (wrong or unproven)
    speed = Speed(kind=Kind.MEASURED, ratio=ratio, low=ratio - 0.03, high=ratio + 0.03, pairs=14)
    return structs.replace(
        base,
        verdict=Verdict.UNPROVEN if unproven else Verdict.REJECTED,
        stage=Stage.PROFILE if timed else Stage.CORRECTNESS,
        code="profile.not-faster" if timed else "correctness.error-above-bound",
        stages=(passed(Stage.POLICY), passed(Stage.COMPILE), correct, *([profile] * timed)),
        rung=1,
        speed=speed if timed else None,
        time=Time(kind=Kind.MEASURED, microseconds=50.0) if timed else None,
        gpu_seconds=2.0,
        gpu="cuda:1 GPU-1",
    )


def pairs_only(code: str) -> GateReport:
    """What it finds when pairs come first, and end with a finding of the timer's."""
    finding = Finding(code=code, says="the timed output is not the answer")
    stage = StageReport(
        stage=Stage.PROFILE, outcome=Outcome.FAILED, says=finding.says, findings=(finding,)
    )
    stages = (passed(Stage.POLICY), passed(Stage.COMPILE), stage)
    report = structs.replace(looked(1.0), code=code, stages=stages, rung=0)
    return structs.replace(report, speed=None, time=None)


def whole(sitting_) -> GateReport:
    """The whole gate, which takes 5 GPU-seconds."""
    return structs.replace(sitting_.go_on(), gpu_seconds=5.0)


def never(_sitting) -> GateReport:
    pytest.fail("it went on to the whole gate")


def climbed(shop, report: GateReport | None, go_on, worth: Worth = PAYS):
    """A candidate's way, its smoke answered by `report`."""

    def smoke(_sitting) -> GateReport:
        if report is None:
            pytest.fail("smoke was asked")
        return report

    one = sitting(shop, None, go_on, smoke=smoke, worth=lambda _history: worth)
    one.attend()
    one.begin()
    return one


def test_what_a_few_pairs_prove_slower_never_comes_to_the_whole_gate(shop):
    one = climbed(shop, looked(0.9), never)
    judged = one.finish(History())
    report = judged.report
    assert (report.verdict, report.code) == (Verdict.REJECTED, "profile.pruned-smoke")
    assert (report.rung, report.speed, report.time) == (1, None, None)
    assert [(v.rung, v.action) for v in judged.rungs] == [("static", "promote"), ("smoke", "prune")]
    assert judged.rungs[1].speed.ratio == 0.9, "the rung's own number is kept with it"
    assert judged.rungs[1].gpu == "cuda:1 GPU-1"
    assert report.gpu_seconds == one.gpu_seconds == 2.0


@pytest.mark.parametrize("ratio", [0.98, 1.0, 1.3])
def test_what_they_leave_open_or_find_faster_is_the_whole_gates_to_decide(shop, ratio):
    judged = climbed(shop, looked(ratio), whole).finish(History())
    assert judged.report.verdict is Verdict.ACCEPTED
    assert [s.outcome for s in judged.report.stages] == [Outcome.PASSED] * len(Stage)
    assert [v.rung for v in judged.rungs] == ["static", "smoke", "bench"]
    assert judged.report.gpu_seconds == 7.0, "both rungs are paid for"


def test_a_gain_at_smoke_keeps_nothing_that_the_whole_gate_refuses(shop):
    def refuses(_sitting) -> GateReport:
        return structs.replace(looked(1.0), rung=2, gpu_seconds=5.0)

    judged = climbed(shop, looked(2.0), refuses).finish(History())
    assert judged.report.verdict is Verdict.REJECTED


def test_what_is_wrong_at_the_smallest_shape_is_refused_as_wrong(shop):
    judged = climbed(shop, looked(0.0, wrong=True), never).finish(History())
    assert (judged.report.verdict, judged.report.code, judged.report.rung) == (
        Verdict.REJECTED,
        "correctness.error-above-bound",
        1,
    )


def test_what_smoke_could_not_judge_goes_on(shop):
    judged = climbed(shop, looked(0.0, unproven=True), whole).finish(History())
    assert judged.report.verdict is Verdict.ACCEPTED


def test_what_the_timer_met_before_anything_was_compared_is_the_whole_gates_to_say(shop):
    one = climbed(shop, pairs_only("profile.crashed"), whole)
    judged = one.finish(History())
    assert judged.report.verdict is Verdict.ACCEPTED
    smoke = next(v for v in judged.rungs if v.rung == "smoke")
    assert (smoke.action, smoke.gpu_seconds) == ("hold", 2.0)
    assert "could not judge" in smoke.reason


def test_where_it_does_not_pay_it_is_not_asked_and_the_reason_is_recorded(shop):
    judged = climbed(shop, None, whole, NOT).finish(History())
    assert judged.report.verdict is Verdict.ACCEPTED
    smoke = next(v for v in judged.rungs if v.rung == "smoke")
    assert (smoke.asked, smoke.reason, smoke.gpu_seconds) == (False, NOT.reason, 0.0)
    assert ladder_says(judged.rungs) == "static promote, smoke left out, bench promote"


@pytest.mark.parametrize(
    ("report", "action"),
    [
        (looked(0.9), "prune"),
        (looked(0.98), "hold"),
        (looked(1.2), "promote"),
        (looked(0.0, unproven=True), "promote"),
        (looked(0.0, wrong=True), "prune"),
    ],
)
def test_a_look_ranks_a_candidate_by_smoke_whatever_that_costs(shop, report, action):
    one = climbed(shop, report, never, NOT)
    look = one.look()
    assert look.action == action
    if action == "promote" and report.speed is not None:
        assert look.score == pytest.approx(1.17 + 0.05)


def test_a_look_that_is_put_aside_keeps_what_was_found(shop):
    one = climbed(shop, looked(1.2), never)
    one.look()
    judged = one.put_aside("profile.held", "put aside: v7 went first")
    assert (judged.report.verdict, judged.report.code) == (Verdict.REJECTED, "profile.held")
    last = judged.rungs[-1]
    assert (last.rung, last.action, last.speed.ratio) == ("smoke", "hold", 1.2)
    assert last.reason.endswith("v7 went first")


def test_a_candidate_that_was_looked_at_is_gated_without_another_look(shop):
    asked: list[int] = []

    def smoke(_sitting) -> GateReport:
        asked.append(1)
        return looked(1.2)

    one = sitting(shop, None, whole, smoke=smoke, worth=lambda _history: PAYS)
    one.begin()
    one.look()
    one.attend()
    assert one.finish(History()).report.verdict is Verdict.ACCEPTED
    assert asked == [1]


# What a session remembers of them


def refused_at_smoke(number: int, code: str, ratio: float):
    made = transition(number, 0, Answer.REJECTED)
    report = looked(ratio)
    gate = structs.replace(report, code=code, work="w", speed=None)
    visit = RungVisit(rung="smoke", action="prune", reason="", speed=report.speed)
    return structs.replace(made, gate=gate, rungs=(visit,), plan=step(card="c", edit="block"))


def test_one_put_aside_speaks_against_no_card_and_one_proven_slower_does():
    class Sources:
        def source(self, number: int) -> str:
            return f"# {number}\n"

    memory = Memory(Sources())
    slower = memory.tried(refused_at_smoke(1, "profile.pruned-smoke", 0.9), {})
    assert (slower.card, slower.speed, slower.accepted) == ("c", 0.9, False)
    assert memory.tried(refused_at_smoke(2, "profile.held", 1.1), {}).card == ""


def test_work_that_smoke_proved_slower_is_not_evaluated_again():
    seed = History().plus(transition(0, None))
    slower = seed.plus(refused_at_smoke(1, "profile.pruned-smoke", 0.9))
    again = structs.replace(transition(2, 0).gate, work="w")
    assert twin_of(again, step(edit="block"), slower).number == 1
    held = seed.plus(refused_at_smoke(1, "profile.held", 1.1))
    assert twin_of(again, step(edit="block"), held) is None
