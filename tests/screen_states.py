"""Every screen and state that there is, with the keys that lead there."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from fake_client import FakeClient, empty, measured, running, waiting
from fake_records import speed
from msgspec import structs
from session_kit import kernel, new_store, transition
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from workbench.engine import devices
from workbench.engine.view import Snapshot, State, Talk
from workbench.errors import WorkbenchError
from workbench.measure.records import Kind, Time
from workbench.session.records import Answer, BackwardStep, Budget, Transition
from workbench.tui.app import WorkbenchApp
from workbench.tui.dialogs import new_run
from workbench.tui.dialogs.following import Prepared
from workbench.tui.panes.profile import Profile

# -- sessions -------------------------------------------------------------------------------------


def failed() -> Snapshot:
    return waiting(state=State.FAILED, pending=None, says="no space left on /data")


def lost() -> Snapshot:
    return waiting(state=State.LOST, pending=None, says="the engine is gone")


def stopped() -> Snapshot:
    return at_rest(State.STOPPED, "a person asked for it")


def paused() -> Snapshot:
    return waiting(state=State.PAUSED, pending=None, versions=waiting().versions[:-1], current=11)


def spent() -> Snapshot:
    return at_rest(State.BUDGET, "12 of 12 steps are done; the best is v9")


def finished() -> Snapshot:
    return at_rest(State.FINISHED, "no card is left to try; the best is v9")


def saved() -> Snapshot:
    return at_rest(State.SAVED, "")


def at_rest(state: State, says: str) -> Snapshot:
    """With no engine."""
    return structs.replace(paused(), state=state, says=says, engine_pid=None)


def recorded() -> Snapshot:
    """Saved, from a GPU: of the seed a time is known, of what was refused a ratio to its parent."""
    seed, *others = measured().versions[:-1]
    seed = structs.replace(
        seed, speed_vs_seed=None, time=Time(kind=Kind.MEASURED, microseconds=840.0)
    )
    rows = [
        structs.replace(v, speed_vs_seed=None) if v.answer is Answer.REJECTED else v
        for v in others
    ]  # fmt: skip
    at = measured(state=State.SAVED, pending=None, current=11, engine_pid=None, log=())
    return structs.replace(at, versions=(seed, *rows))


def thinking() -> Snapshot:
    talk = Talk(
        number=12, role="planner", model="some-model", says="about 12,400 tokens, at most $0.21",
        reasoning="The row is read twice. Hold it in registers.",
    )  # fmt: skip
    return running(talk=talk, plan=None)


def goal() -> Snapshot:
    return running(budget=Budget(steps=60, usd=10.0, goal="2x"))


def goal_met() -> Snapshot:
    met = at_rest(State.FINISHED, "the goal is reached: v9 is 1.88x the seed, modeled")
    return structs.replace(met, budget=Budget(steps=60, usd=10.0, goal="1.8x"))


def lineage() -> Snapshot:
    """An expert taken apart: all kept, the newest is the expert itself."""
    titles = ("start: 2 mechanisms out of shipped expert of gemm, 3 left", "grouped-tiles at grid",
              "persistent-programs at grid")  # fmt: skip
    template = waiting().versions[3]
    rows = tuple(
        structs.replace(
            template, number=number, parent=number - 1 if number else None, title=title,
            speed_vs_seed=speed(1.0 + min(number, 1) * 0.02), best=number == 1,
        )
        for number, title in enumerate(titles)
    )  # fmt: skip
    return waiting(
        kind="lineage", state=State.SAVED, pending=None, versions=rows, current=2, best=1,
        incumbent=2, budget=Budget(), steps=2, problem="gemm", log=(), engine_pid=None,
    )  # fmt: skip


class Walked(FakeClient):
    """Its records say what was taken out and put back."""

    def transition(self, number: int) -> Transition:
        step = BackwardStep(
            category="grouped-tiles", locus="grid", before="a" * 64, after="b" * 64, backward="-",
            forward="+", predecessor="213.5 us modeled for sm90", roundtrip="216.7 us", ratio=1.0,
        )  # fmt: skip
        return structs.replace(super().transition(number), backward=step if number else None)


class Broken(FakeClient):
    """Its news breaks off at once."""

    async def changes(self) -> AsyncIterator[Snapshot]:
        raise WorkbenchError("the engine went away")
        yield


# -- states ---------------------------------------------------------------------------------------


class Shown(NamedTuple):
    """A session, and the keys that lead from it to a screen."""

    snapshot: Callable[[], Snapshot]
    keys: tuple[str, ...] = ()
    client: type[FakeClient] = FakeClient


PAIR = ("j", "j", "j", "m", "g", "D")
OFTEN = {
    "waiting": Shown(waiting),
    "running": Shown(running),
    "empty": Shown(empty),
    "measured": Shown(measured),
    "review": Shown(waiting, ("r",)),
    "sessions": Shown(waiting, ("o",)),
    "new-run": Shown(waiting, ("o", "n")),
    "help": Shown(waiting, ("question_mark",)),
}
"""What is seen most."""
OTHERS = {
    "paused": Shown(paused),
    "spent": Shown(spent),
    "finished": Shown(finished),
    "saved": Shown(saved),
    "failed": Shown(failed),
    "lost": Shown(lost),
    "thinking": Shown(thinking),
    "thoughts": Shown(thinking, ("T",)),
    "profile": Shown(waiting, ("3", "z")),
    "why": Shown(waiting, ("e",)),
    "log": Shown(waiting, ("l",)),
    "palette": Shown(waiting, ("ctrl+p",)),
    "find": Shown(waiting, ("slash",)),
    "veto": Shown(waiting, ("r", "v")),
    "scope": Shown(waiting, ("r", "A")),
    "undo": Shown(saved, ("u",)),
    "branch": Shown(saved, ("j", "j", "b")),
    "compare": Shown(waiting, PAIR),
    "compare-profile": Shown(waiting, (*PAIR, "2")),
    "compare-ttgir": Shown(waiting, (*PAIR, "3")),
    "compare-sass": Shown(waiting, (*PAIR, "5")),
}
REST = {
    "stopped": Shown(stopped),
    "recorded": Shown(recorded),
    "recorded-log": Shown(recorded, ("l",)),
    "disconnected": Shown(running, client=Broken),
    "goal": Shown(goal),
    "goal-met": Shown(goal_met),
    "lineage": Shown(lineage, client=Walked),
    "lineage-step": Shown(lineage, ("d",), Walked),
    "card": Shown(waiting, ("2", "z")),
    "rungs": Shown(waiting, ("4", "z")),
    "budget": Shown(waiting, ("5", "z")),
    "accepting": Shown(waiting, ("r", "A", "y")),
    "review-split": Shown(waiting, ("r", "s")),
    "review-help": Shown(waiting, ("r", "question_mark")),
    "compare-ptx": Shown(waiting, (*PAIR, "4")),
    "stop": Shown(waiting, ("x",)),
    "more": Shown(spent, ("space",)),
    "rename": Shown(waiting, ("o", "R")),
    "filter": Shown(waiting, ("o", "slash", "2")),
    "themes": Shown(waiting, ("t",)),
}
LIBRARY = {
    "skills": Shown(waiting, ("S",)),
    "skill": Shown(waiting, ("S", "slash", *"online-softmax", "enter", "enter")),
}
"""What shows the shipped cards: it changes with every card."""

# -- getting there --------------------------------------------------------------------------------


def two_sessions(home: Path) -> None:
    """What the list of sessions has."""
    folder = home / ".local" / "share" / "workbench" / "sessions"
    for name in ("softmax-1", "softmax-2"):
        new_store(folder, name).record(transition(0, None), kernel(0))


def same_everywhere(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Forms offer no GPU and three problems, whatever this machine has and the suite grows to."""
    monkeypatch.setattr(devices, "DRIVER_FILES", home)
    monkeypatch.setattr(new_run, "shipped_problems", lambda: ("conv2d", "gelu", "softmax"))


async def settle(pilot: Pilot, keys: tuple[str, ...]) -> None:
    """Wait for the records, press, wait for what opens."""
    app = pilot.app
    assert isinstance(app, WorkbenchApp)
    for _ in range(1500):
        await pilot.pause(0.01)
        scene = app.board.query_one(Profile).scene
        if scene is not None and not scene.reading:
            break
    for key in keys:
        await pilot.press(key)
        await pilot.pause(0.05)
        if isinstance(app.screen, Prepared):
            await app.screen.ready.wait()
        await _done(app, pilot)
    # A cursor that blinks is there or not by how long the machine took.
    for field in app.screen.query("Input, TextArea"):
        assert isinstance(field, Input | TextArea)
        field.cursor_blink = False
    await pilot.pause(0.1)


async def _done(app: WorkbenchApp, pilot: Pilot) -> None:
    for _ in range(1500):
        await pilot.pause(0.01)
        if all(worker.group == "feed" or worker.is_finished for worker in app.workers):
            return
