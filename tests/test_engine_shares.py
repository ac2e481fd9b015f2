"""A dear rung takes its share of --gpu-seconds; then only clear gains climb, and nobody is lost."""

from pathlib import Path

import pytest
from beam_parts import HELD, Climber, Ridge, speed_of
from engine_parts import new_session
from gate_kit import ADD_RELU, problem
from msgspec import structs
from session_kit import step, transition
from test_engine_rungs import shop, sitting
from test_engine_smoke import NOT, looked, never, whole

from workbench.cli.report import card_text, outcome_words
from workbench.engine import events as ev
from workbench.engine.fleet import Fleet, Station
from workbench.engine.gatehouse import Gatehouse
from workbench.engine.history import History
from workbench.engine.opening import Opened
from workbench.engine.parts import Judged, Look
from workbench.engine.serve import serve_session
from workbench.errors import WorkbenchError
from workbench.gate.judge import GateSettings
from workbench.gate.records import Verdict
from workbench.measure.records import Kind, Speed
from workbench.search.ladder import load_ladder, shipped_ladder
from workbench.search.shares import clear_gain, idle_shares, share_had
from workbench.session.records import Answer, Budget, Cost, RungVisit, Transition
from workbench.session.spends import Spend
from workbench.session.store import SessionStore

__all__ = ["shop"]

LADDER = shipped_ladder()
HAD = "bench has had its 60 % of --gpu-seconds (61 of 100)"


def visits(**seconds: float) -> list[RungVisit]:
    return [
        RungVisit(rung=rung, action="prune", reason="", gpu_seconds=spent)
        for rung, spent in seconds.items()
    ]


# The rule


def test_a_rung_has_had_its_share_once_it_took_so_much_of_the_limit():
    assert share_had(visits(bench=59.0, profile=29.0), LADDER, 100.0) == ""
    assert share_had(visits(bench=61.0), LADDER, 100.0) == HAD
    assert share_had(visits(bench=30.0, smoke=99.0), LADDER, 100.0) == "", "smoke has what is left"
    both = share_had(visits(bench=61.0, profile=31.0), LADDER, 100.0)
    assert both == "profile has had its 30 % of --gpu-seconds (31 of 100)"


@pytest.mark.parametrize("limit", [None, 0.0])
def test_without_a_limit_nothing_is_shared_out(limit):
    assert share_had(visits(bench=1e6, profile=1e6), LADDER, limit) == ""


def test_a_clear_gain_is_one_by_the_lower_end():
    assert [clear_gain(low, LADDER) for low in (None, 0.9, 1.01, 1.02)] == [False] * 3 + [True]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[rung.smoke]\nshare = 0.2\n", "`rung.smoke.share` is not a part of the ladder"),
        ("[rung.bench]\nshare = 1.5\n", "`rung.bench.share = 1.5`: expected at most 1"),
        ("[rung.bench]\nshare = -0.1\n", "`rung.bench.share = -0.1`: Expected"),
        ("[rung.bench]\nshare = nan\n", "`rung.bench.share = nan`: Expected"),
    ],
)
def test_a_share_that_would_decide_nothing_is_refused_by_name(tmp_path, text, says):
    path = tmp_path / "ladder.toml"
    path.write_text(text)
    with pytest.raises(WorkbenchError) as raised:
        load_ladder(path)
    assert says in raised.value.what


@pytest.mark.parametrize(
    ("share", "says"), [(1, ""), (0, "bench has had its 0 % of --gpu-seconds (0 of 100)")]
)
def test_a_person_may_share_out_otherwise(tmp_path, share, says):
    path = tmp_path / "ladder.toml"
    path.write_text(f"[rung.bench]\nshare = {share}\n")
    assert share_had([], load_ladder(path), 100.0) == says
    assert share_had(visits(bench=99.0), load_ladder(path), 100.0) == says.replace("(0", "(99")


def test_shares_of_a_persons_own_that_decide_nothing_are_said_to(tmp_path):
    path = tmp_path / "ladder.toml"
    path.write_text("[rung.bench]\nshare = 0.5\n")
    own = load_ladder(path)
    assert idle_shares(own, None) == (
        "the share of bench in your ladder.toml decides nothing: no GPU-seconds are limited"
    )
    assert idle_shares(own, 60.0) == idle_shares(LADDER, None) == ""


# One candidate


def climbed(shop, report, go_on, *, plan=None, had=HAD):
    plan = plan or step(edit="block")
    one = sitting(
        shop,
        None,
        go_on,
        smoke=lambda _sitting: report,
        worth=lambda _history: NOT,
        shared_out=lambda _history: had,
        clear=lambda speed: clear_gain(speed.low, LADDER),
    )
    one._procedure = structs.replace(one._procedure, plan=plan)
    one.attend()
    one.begin()
    return one


@pytest.mark.parametrize("ratio", [0.98, 1.0, 1.03])
def test_who_is_no_clear_gain_is_put_aside_with_the_reason(shop, ratio):
    judged = climbed(shop, looked(ratio), never).finish(History())
    assert (judged.report.verdict, judged.report.code) == (Verdict.REJECTED, HELD)
    assert HAD in judged.report.says
    last = judged.rungs[-1]
    assert (last.rung, last.action, last.speed.ratio) == ("smoke", "hold", ratio)
    assert judged.report.gpu_seconds == 2.0
    look = climbed(shop, looked(ratio), never).look()
    assert (look.action, HAD in look.reason) == ("hold", ratio != 0.98), "in a beam as well"


def test_what_smoke_proves_slower_is_given_up_as_ever(shop):
    judged = climbed(shop, looked(0.9), never).finish(History())
    assert judged.report.code == "profile.pruned-smoke"


@pytest.mark.parametrize(
    ("report", "plan"),
    [
        (looked(1.2), None),
        (looked(0.0, unproven=True), None),
        (looked(1.0), step(edit="block", method="fuse")),
        (looked(1.0), step(edit="")),
        (looked(1.0), structs.replace(step(edit="block"), held=4)),
    ],
)
def test_a_clear_gain_goes_on_and_so_does_what_nobody_else_may_judge(shop, report, plan):
    """What smoke cannot judge, what a model or a person wrote, and what was put aside before."""
    judged = climbed(shop, report, whole, plan=plan).finish(History())
    assert judged.report.verdict is Verdict.ACCEPTED


def test_without_a_share_that_was_had_smoke_is_not_even_asked(shop):
    judged = climbed(shop, looked(1.0), whole, had="").finish(History())
    assert judged.report.verdict is Verdict.ACCEPTED
    assert judged.report.gpu_seconds == 5.0


def test_a_sessions_gate_counts_steps_and_last_looks_against_its_own_limit(tmp_path):
    store = new_session(tmp_path / "one", budget=Budget(gpu_seconds=100.0))
    station = Station(index=0, name="cuda:0 GPU-0", workshop=None)
    gatehouse = Gatehouse(
        store,
        problem(ADD_RELU),
        never,
        Fleet(None, [station], never),
        completing=None,
        gate_settings=GateSettings(target="sm90"),
        tell=never,
    )
    seed = structs.replace(transition(0, None), rungs=tuple(visits(bench=90.0)))
    spent = structs.replace(transition(1, 0, Answer.REJECTED), rungs=tuple(visits(bench=61.0)))
    look = Spend(
        purpose="last look", version=0, verdict=Verdict.ACCEPTED, cost=Cost(gpu_seconds=31.0)
    )
    known = History().plus(seed)
    asked = gatehouse.sit("# a\n", known, 2, step(edit="block"))._procedure.shared_out
    assert asked(known) == "", "a seed's verdict is nobody's share"
    assert asked(known.plus(spent)) == HAD
    assert asked(known.spent(look)) == "profile has had its 30 % of --gpu-seconds (31 of 100)"


# A run


LIMIT, SMOKE, BENCH = 60.0, 1.0, 4.0


class Spending(Climber):
    """It takes a GPU for each rung, and its share of a limit is heeded."""

    def __init__(self, workplace, source, history, number, step_) -> None:
        super().__init__(workplace, source, history, number, step_)
        self.plan = step_

    def look(self) -> Look:
        """Few pairs leave a tenth to either side open."""
        ratio = speed_of(self.source).ratio
        speed = Speed(kind=Kind.MEASURED, ratio=ratio, low=ratio - 0.1, high=ratio + 0.1, pairs=14)
        action = "prune" if speed.high < 1 else "hold"
        reason = f"{speed.says()} at smoke"
        visit = RungVisit(rung="smoke", action=action, reason=reason, speed=speed)
        self.visits = (structs.replace(visit, gpu_seconds=SMOKE),)
        return Look(action=action, reason=reason, score=speed.low)

    def finish(self, history: History) -> Judged:
        if self.plan is None:
            return Judged(report=super().finish(history).report)
        spent = [visit for t in history.transitions for visit in t.rungs]
        had = share_had(spent, LADDER, self.workplace.limit)
        if had and self.plan.held is None:
            look = self.look()
            if look.action != "prune" and not clear_gain(look.score, LADDER):
                judged = self.put_aside(HELD, f"put aside: {look.reason}; {had}")
                return self.paid(judged, smoke=SMOKE)
        self.visits = ()
        report = super().finish(history).report
        bench = RungVisit(rung="bench", action="prune", reason=report.says, gpu_seconds=BENCH)
        return self.paid(Judged(report=report, rungs=(bench,)), bench=BENCH)

    def paid(self, judged: Judged, **seconds: float) -> Judged:
        report = structs.replace(judged.report, gpu_seconds=sum(seconds.values()))
        return structs.replace(judged, report=report)


class Sharing(Ridge):
    """Candidates one by one, in a run with a limit of GPU-seconds."""

    beam = 1

    def __init__(self, store, settings, *given, **options) -> None:
        super().__init__(store, settings, *given, **options)
        self.limit = settings.budget.gpu_seconds

    def sit(self, source, history, number, step_):
        return Spending(self, source, history, number, step_)


def ran(folder: Path, budget: Budget) -> tuple[list[Transition], ev.RunEnded]:
    new_session(folder, budget=budget)
    ended = serve_session(folder, open_workplace=Sharing)
    store = SessionStore.open(folder)
    return [store.transition(one.number) for one in store.overview().versions], ended


def test_who_was_put_aside_comes_back_while_budget_is_left_and_is_named_where_not(tmp_path):
    found, ended = ran(tmp_path / "one", Budget(gpu_seconds=LIMIT))
    aside = [one for one in found if one.gate.code == HELD]
    shown = {one.number: one for one in Opened(tmp_path / "one").snapshot().versions}
    back = {one.plan.held: one for one in found if one.plan and one.plan.held is not None}
    assert aside
    assert back, "what is left of the budget is for those that wait"
    for one in aside:
        named = f"v{one.number}" in ended.says.partition("put aside: ")[2].replace(",", " ").split()
        assert named == (one.number not in back), "none is lost silently"
        assert "bench has had its 60 % of --gpu-seconds" in card_text(one)
        assert "held" in outcome_words(shown[one.number]), "`log` says so"
    assert all(one.gate.code != HELD for one in back.values()), "it is judged to the end"
    assert sum(one.cost.gpu_seconds for one in found) <= LIMIT + BENCH


def test_a_run_without_a_limit_of_gpu_seconds_puts_nothing_aside(tmp_path):
    found, _ = ran(tmp_path / "one", Budget(steps=14))
    assert HELD not in {one.gate.code for one in found}
    assert {one.decision.answer for one in found} == {Answer.ACCEPTED, Answer.REJECTED}


def test_a_run_that_makes_no_headway_ends_only_when_none_waits_that_may_be_a_gain(tmp_path):
    """A limit so wide that nothing but the stillness ends it, and shares that are had at once."""
    found, ended = ran(tmp_path / "one", Budget(gpu_seconds=150.0))
    back = [one.plan.held for one in found if one.plan and one.plan.held is not None]
    assert ended.how in {"finished", "budget"}
    assert len(back) == len(set(back)), "each comes back once"
