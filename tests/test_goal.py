"""A run ends when its goal is reached, and says while it goes what of its budget is spent."""

from pathlib import Path

import pytest
from engine_parts import ScriptedWorkplace, new_session
from fake_client import waiting
from msgspec import structs
from test_cli import Shell
from tui_kit import stage

from workbench.engine import events as ev
from workbench.engine.client import SessionClient
from workbench.engine.create import request_run
from workbench.engine.goal import checked_goal, goal_of
from workbench.engine.serve import serve_session
from workbench.engine.spending import Spending
from workbench.engine.view import LogLine, State
from workbench.errors import WorkbenchError
from workbench.measure.records import Kind, Speed, Time
from workbench.session.records import Budget, Cost
from workbench.tui.panes.budget import Budget as BudgetPane


def run(folder: Path) -> tuple[ev.RunEnded, list[str]]:
    """Run to the end; how it ended, and the warnings on the way."""
    told: list[str] = []

    def hear(event: ev.AnyEvent) -> None:
        if isinstance(event, ev.Note) and event.level == "warning":
            told.append(event.says)

    return serve_session(folder, listen=hear, open_workplace=ScriptedWorkplace), told


# -- the goal ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1.5x", "1.5x the seed"),
        ("2 X", "2x the seed"),
        ("900us", "900 us"),
        ("0.9 ms", "900 us"),
    ],
)
def test_a_goal_is_a_speed_or_a_time(text: str, words: str) -> None:
    goal = goal_of(Budget(goal=checked_goal(text)))
    assert goal is not None
    assert goal.words() == words


@pytest.mark.parametrize("text", ["fast", "1x", "0.5x", "0us", "-3us", "1.5", "5 s", "1.5xx"])
def test_what_is_no_goal_is_refused_with_what_is(text: str) -> None:
    with pytest.raises(WorkbenchError, match="is not a goal") as told:
        checked_goal(text)
    assert "1.5x" in told.value.todo
    assert goal_of(Budget(goal=text)) is None, "a stranger's session is drawn all the same"


def test_a_measured_number_reaches_it_with_the_worse_end_of_its_interval() -> None:
    speed = Speed(kind=Kind.MEASURED, ratio=1.51, low=1.49, high=1.53)
    goal = goal_of(Budget(goal="1.5x"))
    assert goal is not None
    assert not goal.reached(None, speed)
    assert goal.reached(None, structs.replace(speed, low=1.5))
    took = Time(kind=Kind.MEASURED, microseconds=899.0, low=897.0, high=902.0)
    goal = goal_of(Budget(goal="900us"))
    assert goal is not None
    assert not goal.reached(took, None)
    assert goal.reached(structs.replace(took, high=900.0), None)


def test_a_run_ends_where_its_goal_is_reached_and_a_further_one_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "softmax-1"
    new_session(folder, budget=Budget(goal="98us"))
    ended, _ = run(folder)
    assert ended.how == "finished"
    assert ended.says == "the goal of 98 us is reached: v2 takes 98.0 us modeled; the best is v2"
    assert SessionClient(folder).snapshot().state is State.FINISHED
    again, _ = run(folder)
    assert again.says == ended.says, "a resumed run that is there already does nothing"
    request_run(folder, mode=None, budget=Budget(goal="95.5us"))
    assert "v5 takes 95.0 us modeled" in run(folder)[0].says
    request_run(folder, mode=None, budget=Budget(goal="none"))
    assert "nothing is left to try" in run(folder)[0].says


def test_the_commands_take_and_tell_it(tmp_path: Path) -> None:
    shell = Shell(tmp_path, tmp_path)
    assert "is not a goal" in shell.refused("run", "softmax", "--headless", "--goal", "fast")
    folder = tmp_path / "sessions" / "softmax-1"
    new_session(folder, budget=Budget(goal="98us"))
    assert "goal      98 us, not reached" in shell("status", "softmax-1")
    run(folder)
    assert "goal      98 us, reached" in shell("status", "softmax-1")


# -- what is spent ----------------------------------------------------------------------------


def test_the_half_and_four_fifths_of_a_limit_are_told_once(tmp_path: Path) -> None:
    folder = tmp_path / "softmax-1"
    new_session(folder, budget=Budget(steps=5))
    _, told = run(folder)
    assert told == ["60 % of the steps are spent: 3 of 5", "80 % of the steps are spent: 4 of 5"]
    request_run(folder, mode=None, budget=Budget(steps=6))
    assert run(folder)[1] == [], "a resumed run does not tell what was passed before it"


def test_every_limit_warns_in_its_own_unit() -> None:
    budget = Budget(usd=2.0, gpu_seconds=100.0, wall_seconds=0.0)
    spending = Spending(budget, 0, Cost())
    assert spending.news(9, Cost(usd=1.7, gpu_seconds=49.0, wall_seconds=3.0)) == [
        "85 % of the dollars are spent: $1.70 of $2.00"
    ]
    assert spending.news(9, Cost(usd=1.9, gpu_seconds=50.0)) == [
        "50 % of the GPU-seconds are spent: 50 of 100"
    ]


# -- on the screen ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("goal", "says"),
    [("2.5x", "v9 1.88x of 2.5x  modeled"), ("1.5x", "v9 1.88x of 1.5x ✓  modeled")],
)
async def test_the_budget_pane_shows_the_best_beside_the_goal(goal: str, says: str) -> None:
    snapshot = waiting(budget=Budget(steps=60, goal=goal))
    async with stage(snapshot) as on:
        assert says in on.text(BudgetPane)
    async with stage(snapshot, size=(80, 24)) as on:
        assert says.removeprefix("v9 ") in on.text(BudgetPane)


async def test_a_time_is_shown_where_the_goal_is_one() -> None:
    snapshot = waiting(budget=Budget(goal="400us"))
    took = Time(kind=Kind.MODELED, microseconds=446.8)
    versions = tuple(
        structs.replace(v, time=took) if v.number == 9 else v for v in snapshot.versions
    )
    async with stage(structs.replace(snapshot, versions=versions)) as on:
        assert "v9 447 us of 400 us  modeled" in on.text(BudgetPane)


async def test_the_goal_is_named_before_anything_is_timed() -> None:
    snapshot = waiting(budget=Budget(goal="400us"), best=None)
    async with stage(snapshot) as on:
        assert "the goal is 400 us" in on.text(BudgetPane)


async def test_a_warning_is_told_once_where_the_person_looks() -> None:
    snapshot = waiting()
    line = LogLine(at="2025-06-01T21:05:00", level="warning", says="60 % are spent", news=True)
    async with stage(snapshot) as on:
        on.client.push(structs.replace(snapshot, log=(*snapshot.log, line)))
        await on.until(lambda: "60 % are spent" in on.toasts)
        on.client.push(structs.replace(snapshot, log=(*snapshot.log, line), steps=13))
        await on.until(lambda: on.scene.snapshot.steps == 13)
        assert on.toasts.count("60 % are spent") == 1
