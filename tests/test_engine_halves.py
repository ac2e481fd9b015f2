"""A step on a GPU is timed before it is compared; nothing is kept that was not compared."""

import pytest
from engine_parts import new_session
from gate_kit import ADD_RELU, problem
from house_parts import house_of
from msgspec import structs
from session_kit import step, transition
from test_engine_rungs import HONEST, shop, version

from workbench.agents.memory import remember
from workbench.engine import gatehouse, halves
from workbench.engine.climbing import Climb
from workbench.engine.evidence import evidence_of
from workbench.engine.history import History
from workbench.engine.twins import twin_of
from workbench.gate.candidate import candidate_of
from workbench.gate.correctness.cases import SEED_BYTES
from workbench.gate.judge import GateSettings, Sitting
from workbench.gate.problem.inspect import inspect_problem
from workbench.gate.profile import Profiled
from workbench.gate.records import Blame, Finding, Outcome, Stage, StageReport, Verdict
from workbench.gate.timing.report import FOUND_ONCE
from workbench.measure.records import Kind, PairSamples, Speed, Time
from workbench.search.rungs import Ladder
from workbench.session.records import Answer, Decision

__all__ = ["shop"]

PARENT = candidate_of("# parent")
SPEED = Speed(kind=Kind.MEASURED, ratio=1.3, low=1.28, high=1.32, pairs=14, gpu_seconds=1.5)
WRONG = HONEST.replace("tl.maximum(x + y, 0.0)", "tl.maximum(x - y, 0.0)")


class Half:
    """One run of a timer that says what it was told to."""

    def __init__(self, run: str, outcome: Outcome, code: str = "", ratio: float = 1.3) -> None:
        blame = Blame.MACHINE if code == FOUND_ONCE else Blame.CANDIDATE
        findings = (Finding(code=code, says=code, blame=blame),) if code else ()
        self._profiled = Profiled(
            report=StageReport(
                stage=Stage.PROFILE,
                outcome=outcome,
                says=code,
                findings=findings,
                seconds=4.0,
                parts={"pairs": 1.0},
            ),
            time=Time(kind=Kind.MEASURED, microseconds=38.0),
            speed=structs.replace(SPEED, ratio=ratio) if ratio else None,
            samples=(PairSamples(run=run, us={"candidate": (38.0,), "parent": (50.0,)}),),
            gpu_seconds=1.5,
        )

    def __call__(self, _candidate, _parent, *, seed, listen):
        assert len(seed) == SEED_BYTES
        listen(7, 14, "7 of 14 pairs")
        return self._profiled


FIRST = Half("first", Outcome.UNPROVEN, FOUND_ONCE)
SECOND = Half("second", Outcome.PASSED, ratio=1.2)


def gated(shop, source: str, first: Half, second: Half = SECOND):
    """The verdict, what was told, and what the whole gate was given, if it was asked."""
    task, told, given = problem(ADD_RELU), [], []
    facts = inspect_problem(task, shop)
    settings = GateSettings(target="sm90", rung=1)
    begun = Sitting(candidate_of(source), task, lambda: facts, settings, shop, told.append)
    begun.begin()

    def once(tell):
        uncompared = structs.replace(settings, rung=0)
        return begun.again(uncompared, shop, tell).go_on(parent=PARENT, timer=first)

    def whole(found):
        given.append(found)
        return begun.again(settings, shop, told.append).go_on(parent=PARENT, timer=second)

    return halves.gated(once, whole, settings.rung, told.append), told, given


@pytest.mark.parametrize("code", ["profile.slower", "profile.not-faster", "profile.cannot-tell"])
def test_what_is_no_faster_is_refused_without_being_compared(shop, code):
    report, told, given = gated(shop, WRONG, Half("first", Outcome.FAILED, code, ratio=0.9))
    assert (report.verdict, report.stage, report.code) == (Verdict.REJECTED, Stage.PROFILE, code)
    assert given == []
    assert [one.stage for one in report.stages] == list(Stage)
    assert report.report(Stage.CORRECTNESS).outcome is Outcome.SKIPPED
    assert report.says == f"{code}; not compared", "nothing says that it is right"
    assert report.report(Stage.CORRECTNESS).says.startswith("not compared")
    assert (report.speed.ratio, report.gpu_seconds, report.rung) == (0.9, 1.5, 1)
    ended = [one.report.stage for one in told if one.report is not None]
    assert ended == list(Stage), "and it is told stage by stage, once"


def test_nobody_who_remembers_a_slow_kernel_takes_it_for_right(tmp_path, shop):
    """A model's memory, the reasons in git and the rows for cards all say it."""
    report, _, _ = gated(shop, WRONG, Half("first", Outcome.FAILED, "profile.slower", ratio=0.9))
    store = new_session(tmp_path / "one")
    store.record(transition(0, None), "# v0\n")
    reason = Decision(answer=Answer.REJECTED, by="gate", reason=report.says)
    plan = step(edit="block", card="block-size")
    slow = structs.replace(transition(1, 0), gate=report, plan=plan, decision=reason)
    store.record(slow, "# v1\n")
    assert "not compared" in remember([slow], {}).attempts[0].says()
    (row,) = (one.row for one in evidence_of(store.folder) if one.card == "block-size")
    assert row.verdict == "rejected"
    assert "not compared" in row.says


@pytest.mark.parametrize("ratio", [0.9, 1.2])
def test_whoever_verifies_a_version_compares_it_however_slow_it_is(
    tmp_path, shop, monkeypatch, ratio
):
    slow = Half("first", Outcome.FAILED, "profile.slower", ratio=ratio)
    monkeypatch.setattr(gatehouse, "timer_of", lambda *_given, **_ask: slow)
    task, store = problem(ADD_RELU), new_session(tmp_path / "one")
    store.record(transition(0, None), HONEST)
    house = house_of(store, task, shop, lambda _number, _told: None, Completed())
    report = house.gate(WRONG, transition(0, None), 1)
    assert (report.verdict, report.stage) == (Verdict.REJECTED, Stage.CORRECTNESS)


class Completed:
    """Adds nothing."""

    def completed(self, report, _seed_time):
        return report


def test_a_gain_is_compared_then_found_again_and_both_runs_are_kept(shop):
    report, told, given = gated(shop, HONEST, FIRST)
    assert report.verdict is Verdict.ACCEPTED
    assert [one.outcome for one in report.stages] == [Outcome.PASSED] * len(Stage)
    assert given == [SPEED]
    assert [one.run for one in report.samples] == ["first", "second"]
    assert report.speed.ratio == 1.2, "the second run's own"
    assert report.gpu_seconds == 3.0
    timed = report.report(Stage.PROFILE)
    assert timed.seconds >= 8.0
    assert timed.parts["pairs"] == 2.0
    ended = [one.report.stage for one in told if one.report is not None]
    assert ended == list(Stage)


def test_a_fast_kernel_that_is_wrong_is_refused_as_wrong(shop):
    report, _, given = gated(shop, WRONG, FIRST)
    assert (report.verdict, report.stage) == (Verdict.REJECTED, Stage.CORRECTNESS)
    assert given == [SPEED]
    assert report.speed is None


def test_a_gain_that_is_not_found_again_is_none(shop):
    again = Half("second", Outcome.FAILED, "profile.not-faster", ratio=1.0)
    report, _, _ = gated(shop, HONEST, FIRST, again)
    assert (report.verdict, report.code) == (Verdict.REJECTED, "profile.not-faster")


@pytest.mark.parametrize(
    ("outcome", "code", "ratio"),
    [
        (Outcome.FAILED, "profile.timed-output-wrong", 0.0),
        (Outcome.FAILED, "profile.timed-output-wrong", 1.3),
        (Outcome.FAILED, "profile.crashed", 0.0),
        (Outcome.UNPROVEN, "profile.noisy", 0.0),
    ],
)
def test_whatever_else_the_first_run_met_is_the_whole_gates_to_say(shop, outcome, code, ratio):
    """However fast it was until then."""
    report, _, given = gated(shop, HONEST, Half("first", outcome, code, ratio=ratio))
    assert given == [None], "no gain is taken from it"
    assert report.verdict is Verdict.ACCEPTED


def test_a_wrong_kernel_whose_timed_output_was_wrong_is_told_why_by_correctness(shop):
    first = Half("first", Outcome.FAILED, "profile.timed-output-wrong", ratio=0.0)
    report, _, _ = gated(shop, WRONG, first)
    assert report.stage is Stage.CORRECTNESS


def test_the_ladder_notes_what_was_refused_at_bench_with_its_number(shop):
    report, _, _ = gated(shop, HONEST, Half("first", Outcome.FAILED, "profile.slower", ratio=0.9))
    climb = Climb(Ladder.load(), trusted=False)
    climb.gated(report, needs_gpu=True)
    (visit,) = climb.visits
    assert (visit.rung, visit.action, visit.speed.ratio) == ("bench", "prune", 0.9)
    assert visit.gpu_seconds == 1.5


def test_work_that_was_no_faster_is_not_evaluated_again_though_nobody_compared_it():
    skipped = StageReport(stage=Stage.CORRECTNESS, outcome=Outcome.SKIPPED, says="")
    known = transition(0, None)
    slow = version(1, 0, Answer.REJECTED, work="w", stages=(skipped,))
    past = History().plus(known).plus(slow)
    report = version(2, 0, Answer.ACCEPTED, work="w").gate
    assert twin_of(report, step(edit="block"), past).number == 1
