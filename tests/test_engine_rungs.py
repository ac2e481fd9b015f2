"""The ladder saves work on candidates that are refused, and takes no part in accepting one."""

from pathlib import Path

import pytest
from gate_kit import ADD_RELU, ADD_RELU_KERNEL, CANDIDATE, REFERENCE, model, problem
from gate_kit import workshop as shop
from msgspec import structs
from session_kit import SPEED, step, transition

from workbench.engine import events as ev
from workbench.engine.budget import price, room, too_little
from workbench.engine.climbing import Climb
from workbench.engine.create import RunRequest, create_session
from workbench.engine.draws import seed_for, session_secret
from workbench.engine.fold import fold
from workbench.engine.history import History
from workbench.engine.opening import Opened
from workbench.engine.refusing import refused
from workbench.engine.serve import serve_session
from workbench.engine.sittings import Ear, Procedure, SessionSitting
from workbench.engine.stopping import Stopping
from workbench.engine.twins import same_work, twin_of
from workbench.gate.candidate import candidate_of
from workbench.gate.judge import GateSettings, Sitting
from workbench.gate.problem.inspect import inspect_problem
from workbench.gate.records import Finding, Outcome, Stage, StageReport, Verdict
from workbench.measure.baselines import Baseline, Baselines
from workbench.measure.baselines import Outcome as Baselined
from workbench.measure.records import Kind, Limit, Time
from workbench.search.rungs import Ladder
from workbench.session.records import Answer, Budget, Cost, Mode, RungVisit, Transition
from workbench.session.store import SessionStore

__all__ = ["shop"]

HONEST = CANDIDATE + ADD_RELU_KERNEL + model("return launch(*inputs, torch.empty_like(inputs[0]))")


def passed(stage: Stage) -> StageReport:
    return StageReport(stage=stage, outcome=Outcome.PASSED, says="fine")


def version(number: int, parent: int | None, answer: Answer, *, work: str, **gate: object):
    """A version that was right at every stage, unless `gate` says otherwise."""
    made = transition(number, parent, answer)
    fields = {"stages": tuple(map(passed, Stage)), "work": work, **gate}
    if answer is Answer.REJECTED:
        fields = {"code": "profile.not-faster", "stage": Stage.PROFILE, **fields}
    return structs.replace(made, gate=structs.replace(made.gate, **fields))


def history(*versions) -> History:
    made = History()
    for one in versions:
        made = made.plus(one)
    return made


# The same work


def test_work_that_was_no_gain_on_this_line_is_not_evaluated_again():
    known = history(
        version(0, None, Answer.ACCEPTED, work="a"),
        version(1, 0, Answer.REJECTED, work="b"),
        version(2, 0, Answer.ACCEPTED, work="c"),
    )
    edit = step(edit="block")
    for work, number in (("a", 0), ("b", 1), ("c", 2), ("d", None), ("", None)):
        report = version(3, 2, Answer.ACCEPTED, work=work).gate
        twin = twin_of(report, edit, known)
        assert (None if twin is None else twin.number) == number
    twin = twin_of(version(3, 2, Answer.ACCEPTED, work="b").gate, edit, known)
    assert "v1" in same_work(twin).says


@pytest.mark.parametrize(
    ("why", "twin"),
    [
        ("it was wrong", {"code": "correctness.error-above-bound", "stages": ()}),
        ("nobody could tell its speed", {"code": "profile.cannot-tell"}),
        (
            "a stage could not prove it",
            {"stages": (StageReport(stage=Stage.CORRECTNESS, outcome=Outcome.UNPROVEN, says=""),)},
        ),
    ],
)
def test_a_twin_that_was_never_found_slow_answers_nothing(why, twin):
    known = history(
        version(0, None, Answer.ACCEPTED, work="a"),
        version(1, 0, Answer.REJECTED, work="b", **twin),
    )
    assert (
        twin_of(version(2, 0, Answer.ACCEPTED, work="b").gate, step(edit="block"), known) is None
    ), why


def test_a_twin_of_another_line_answers_nothing():
    """What was no gain over v1 may be one over v0, to which a person went back."""
    known = history(
        version(0, None, Answer.ACCEPTED, work="a"),
        version(1, 0, Answer.VETOED, work="b"),
        version(2, 1, Answer.REJECTED, work="c"),
    )
    assert known.incumbent.number == 0
    assert twin_of(version(3, 0, Answer.ACCEPTED, work="c").gate, step(edit="block"), known) is None


def test_what_a_model_or_a_person_wrote_is_always_evaluated():
    known = history(version(0, None, Answer.ACCEPTED, work="a"))
    report = version(1, 0, Answer.ACCEPTED, work="a").gate
    assert twin_of(report, step(edit="block"), known) is not None
    assert twin_of(report, step(edit="block", method="fuse"), known) is None
    assert twin_of(report, step(edit=""), known) is None
    assert twin_of(report, None, known) is None


@pytest.mark.parametrize("stage", list(Stage))
def test_a_report_cut_short_accepts_nothing_and_keeps_no_time(stage):
    whole = version(1, 0, Answer.ACCEPTED, work="a").gate
    whole = structs.replace(
        whole, time=Time(kind=Kind.MEASURED, microseconds=5.0), versus_seed=SPEED, gpu_seconds=2.0
    )
    cut = refused(whole, stage, Finding(code=f"{stage}.why", says="because"), rung=0)
    assert (cut.verdict, cut.stage, cut.code) == (Verdict.REJECTED, stage, f"{stage}.why")
    assert (cut.time, cut.speed, cut.versus_seed) == (None, None, None)
    assert cut.gpu_seconds == 2.0, "what was spent stays spent"
    assert [s.stage for s in cut.stages] == list(Stage)
    place = list(Stage).index(stage)
    outcomes = [s.outcome for s in cut.stages]
    assert outcomes[:place] == [Outcome.PASSED] * place
    assert outcomes[place:] == [Outcome.FAILED, *[Outcome.SKIPPED] * (3 - place)]


# Rungs


def sitting(
    shop, modeled: float | None, go_on, *, trusted: bool = True, **doors: object
) -> SessionSitting:
    """An honest candidate that is modeled at so many microseconds; its parent at 100."""
    task = problem(ADD_RELU)
    facts = inspect_problem(task, shop)
    settings = GateSettings(target="sm90", rung=1)
    before = Time(kind=Kind.MODELED, microseconds=100.0)
    parent = structs.replace(
        transition(0, None),
        rungs=(RungVisit(rung="static", action="promote", reason="", time=before),),
    )
    ear = Ear(lambda _told: None)
    time = None if modeled is None else structs.replace(before, microseconds=modeled)
    procedure = Procedure(
        plan=step(edit="block"),
        history=history(parent),
        parent=parent,
        needs_gpu=True,
        go_on=go_on,
        modeled=lambda _sitting: time,
        **{"completed": lambda report: report, **doors},
    )
    judge = Sitting(candidate_of(HONEST), task, lambda: facts, settings, shop, ear)
    return SessionSitting(judge, ear, procedure, Climb(Ladder.load(), trusted=trusted))


def test_far_slower_by_a_trusted_model_costs_no_gpu(shop):
    def go_on(_sitting):
        pytest.fail("it went on to the GPU")

    one = sitting(shop, 300.0, go_on)
    one.attend()
    one.begin()
    judged = one.finish(History())
    assert (judged.report.verdict, judged.report.code) == (
        Verdict.REJECTED,
        "profile.pruned-static",
    )
    assert judged.report.report(Stage.CORRECTNESS).outcome is not Outcome.PASSED
    (visit,) = judged.rungs
    assert (visit.rung, visit.action) == ("static", "prune")
    assert visit.speed.ratio == pytest.approx(1 / 3)
    assert visit.wall_seconds > 0


def test_what_a_candidate_pays_for_others_is_its_cost_and_no_rungs_price(shop):
    """Baselines and inspections are on its bill, and so is a GPU that it had in vain."""
    one = sitting(
        shop,
        101.0,
        lambda asked: structs.replace(asked.go_on(), gpu_seconds=2.0),
        completed=lambda report: structs.replace(report, gpu_seconds=report.gpu_seconds + 30.0),
    )
    one._ear.had(5.0)
    one.attend()
    one.begin()
    judged = one.finish(History())
    assert judged.report.gpu_seconds == 37.0
    assert {v.rung: v.gpu_seconds for v in judged.rungs}["bench"] == 2.0


@pytest.mark.parametrize(("modeled", "trusted"), [(101.0, True), (300.0, False), (None, True)])
def test_a_doubtful_or_untrusted_model_decides_nothing(shop, modeled, trusted):
    one = sitting(shop, modeled, lambda sitting: sitting.go_on(), trusted=trusted)
    one.attend()
    one.begin()
    judged = one.finish(History())
    assert judged.report.verdict is Verdict.ACCEPTED
    assert [s.outcome for s in judged.report.stages] == [Outcome.PASSED] * len(Stage)
    assert [v.action for v in judged.rungs] == ["promote", "promote"]


def test_rungs_are_told_in_the_log_and_shown_in_order(tmp_path):
    first = RungVisit(rung="static", action="promote", reason="nothing against it")
    second = RungVisit(rung="smoke", action="prune", reason="0.8x")
    snapshot = Opened(create_small(tmp_path)).snapshot()
    events = [
        ev.RungReached(number=4, visit=first),
        ev.RungReached(number=5, visit=first),
        ev.RungReached(number=4, visit=second),
    ]
    climbers = fold(snapshot, events).climbers
    assert [(one.number, one.visits) for one in climbers] == [(4, (first, second)), (5, (first,))]


# Stopping


def at(kind: Kind, microseconds: float) -> Time:
    return Time(kind=kind, microseconds=microseconds)


def rounds(*speeds: float) -> History:
    made = [version(0, None, Answer.ACCEPTED, work="")]
    for speed in speeds:
        answer = Answer.ACCEPTED if speed > 1 else Answer.REJECTED
        made.append(
            version(len(made), 0, answer, work="", speed=structs.replace(SPEED, ratio=speed))
        )
    return history(*made)


def test_a_run_ends_when_two_rests_in_a_row_gained_nothing():
    stops = Stopping(1)
    assert not stops.says(rounds(*[1.0] * 9))
    assert "10 rounds in a row" in stops.says(rounds(*[1.0] * 10))
    assert not stops.says(rounds(1.0, 1.02, *[1.0] * 9))
    assert not Stopping(6).says(rounds(*[1.0] * 12)), "resumed at v6, it has tried seven since"


def test_a_run_ends_near_the_gpus_limit_and_by_no_modeled_time():
    limit = Limit(us=96.0, says="bytes", bound="memory", source="measured ceiling")
    seed = version(
        0,
        None,
        Answer.ACCEPTED,
        work="",
        limit=limit,
        time=Time(kind=Kind.MEASURED, microseconds=100.0),
    )
    assert "96 % of the limit" in Stopping(1).says(history(seed))
    for slower in (
        Time(kind=Kind.MEASURED, microseconds=120.0),
        Time(kind=Kind.MODELED, microseconds=96.0),
    ):
        assert not Stopping(1).says(
            history(structs.replace(seed, gate=structs.replace(seed.gate, time=slower)))
        )


def test_a_limit_that_pytorch_comes_nearer_to_ends_no_run():
    limit = Limit(us=96.0, says="bytes", bound="memory", source="measured ceiling")
    best = at(Kind.MEASURED, 100.0)
    seed = version(0, None, Answer.ACCEPTED, work="", limit=limit, time=best)

    def beside(microseconds: float) -> History:
        timed = Baseline(outcome=Baselined.MEASURED, time=at(Kind.MEASURED, microseconds))
        known = Baselines(
            problem="p", shape="full", gpu="g", versions={}, measured="2026-11-30", eager=timed
        )
        return history(structs.replace(seed, gate=structs.replace(seed.gate, baselines=known)))

    assert not Stopping(1).says(beside(98.0))
    assert "96 % of the limit" in Stopping(1).says(beside(101.0))


def priced(*seconds: float, answer: Answer = Answer.REJECTED) -> list[Transition]:
    """Steps of one answer that took so long, twice that on a GPU."""
    return [
        structs.replace(transition(number, 0, answer), cost=Cost(wall_seconds=s, gpu_seconds=2 * s))
        for number, s in enumerate(seconds, start=1)
    ]


def test_no_step_begins_that_the_limits_have_no_room_for():
    step_price = price(priced(9.0, 1.0, 10.0))
    assert (step_price.wall_seconds, step_price.gpu_seconds) == (9.0, 18.0)
    spent = Cost(wall_seconds=20.0, gpu_seconds=40.0)
    assert not too_little(Budget(), spent, step_price)
    assert not too_little(Budget(wall_seconds=29.0), spent, step_price)
    assert "8.0 of 28 seconds" in too_little(Budget(wall_seconds=28.0), spent, step_price)
    assert "GPU-seconds" in too_little(Budget(gpu_seconds=50.0), spent, step_price)
    assert not too_little(Budget(wall_seconds=28.0), spent, price([])), "nothing is known yet"
    assert room(Budget(wall_seconds=40.0), 3, spent, step_price) == 2
    assert room(Budget(wall_seconds=400.0, steps=4), 3, spent, step_price) == 1
    assert room(Budget(), 3, spent, step_price) > 1000


def test_a_long_accepted_step_does_not_end_a_run_that_has_time_left():
    long = priced(60.0, answer=Answer.ACCEPTED)
    assert not too_little(Budget(wall_seconds=90.0), Cost(wall_seconds=60.0), price(long))
    mixed = [*long, *priced(5.0, 6.0, 7.0)]
    assert price(mixed).wall_seconds == 6.0, "what is refused is what mostly comes next"
    kept = priced(60.0, 20.0, 10.0, 50.0, 40.0, answer=Answer.ACCEPTED)
    assert price(kept).wall_seconds == 20.0, "a quarter of the steps took no more"


def test_a_candidate_that_hung_prices_no_step():
    assert price(priced(120.0)) == Cost()
    assert price([*priced(120.0), *priced(4.0, 5.0)]).wall_seconds == 5.0


# A session's secret


def test_a_sessions_draws_are_its_own_and_hang_on_number_and_text(tmp_path):
    secret = session_secret(tmp_path)
    assert session_secret(tmp_path) == secret
    assert (tmp_path / "judge.secret").stat().st_mode & 0o077 == 0
    seeds = {seed_for(s, n, t) for s in (secret, bytes(32)) for n in (1, 2) for t in ("a", "b")}
    assert len(seeds) == 8


# The whole, for real


def create_small(folder: Path, **request: object) -> Path:
    folder.mkdir(exist_ok=True)
    task, kernel = folder / "mine.py", folder / "kernel.py"
    task.write_text(REFERENCE + ADD_RELU)
    kernel.write_text(HONEST)
    known = {
        "problem": str(task),
        "kernel": kernel,
        "mode": Mode.AUTO,
        "device": "cpu",
        "target": "sm90",
        "budget": Budget(steps=4),
        "proposer": "skills",
        "name": "one",
        "sessions": folder / "sessions",
    }
    return create_session(RunRequest(**{**known, **request}))


@pytest.mark.slow
def test_a_real_session_is_the_same_with_and_without_looking_ahead(tmp_path):
    """Same plans, sources, verdicts and modeled times; accepted means every stage passed."""
    rows = []
    secret = session_secret(tmp_path)
    for name, ahead in (("plain", 0), ("ahead", 3)):
        path = create_small(tmp_path / name, ahead=ahead)
        store = SessionStore.open(path)
        (store.state / "judge.secret").write_bytes(secret)
        heard: list[ev.AnyEvent] = []
        serve_session(path, listen=heard.append)
        found = []
        for one in store.overview().versions:
            made = store.transition(one.number)
            gate = made.gate
            found.append(
                (one.number, made.parent, made.plan, store.source(one.number))
                + (gate.verdict, gate.code, gate.work, gate.rung)
                # The seed is a person's kernel: it is judged on fresh draws.
                + ((gate.time, gate.replay_seed) if made.parent is not None else ())
                + tuple((visit.rung, visit.action) for visit in made.rungs)
            )
            assert made.rungs[0].rung == "static"
            assert one.ladder.startswith("static ")
            if gate.verdict is Verdict.ACCEPTED:
                assert [s.outcome for s in gate.stages] == [Outcome.PASSED] * len(Stage)
            if gate.code == "compile.same-work":
                assert gate.report(Stage.CORRECTNESS).outcome is Outcome.SKIPPED
        rows.append(found)
        assert any(isinstance(event, ev.AheadUsed) for event in heard) is (ahead > 0)
    assert rows[0] == rows[1]
    assert len(rows[0]) > 2
