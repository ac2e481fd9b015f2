"""A run that met its limits, or whose news broke off, goes on from the screen."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from engine_parts import new_session
from fake_client import FakeClient, empty, running, waiting
from test_engine import scripted
from textual.widgets import Input, Static
from tui_kit import stage

from workbench.engine.client import SessionClient
from workbench.engine.serve import serve_session
from workbench.engine.view import Snapshot, State
from workbench.errors import WorkbenchError
from workbench.session.records import Budget
from workbench.tui.dialogs.more import More
from workbench.tui.panes.banner import Banner
from workbench.tui.panes.header import Header
from workbench.tui.panes.lineage import Lineage


@pytest.fixture
def spent(tmp_path: Path) -> Path:
    folder = tmp_path / "softmax-1"
    new_session(folder, budget=Budget(steps=2, wall_seconds=900.0))
    serve_session(folder, open_workplace=scripted(steps=6))
    return folder


async def test_a_spent_budget_is_widened_on_the_screen_and_the_engine_started(spent: Path) -> None:
    client = SessionClient(spent)
    async with stage(client.snapshot(), client=client) as on:
        assert "space go on with more" in on.text(Banner)
        await on.press("space")
        form = on.app.screen
        assert isinstance(form, More)
        assert [field.value for field in form.query(Input)] == ["2", "", "900", "", ""]
        form.query_one("#steps", Input).value = "four"
        await on.press(*["enter"] * 5)
        await on.until(
            lambda: "'four' is not an amount" in str(form.query_one("#hint", Static).content)
        )
        form.query_one("#steps", Input).value = "4"
        form.query_one("#goal", Input).value = "90us"
        await on.press("enter")
        await on.until(lambda: on.app.return_value is not None)
    left = on.app.return_value
    assert left is not None
    assert (left.path, left.start) == (spent, True)
    budget = SessionClient(spent)._opened.store.settings().budget
    assert budget == Budget(steps=4, wall_seconds=900.0, goal="90us")


class Breaking(FakeClient):
    """Its feed breaks once."""

    broken = False

    async def changes(self) -> AsyncIterator[Snapshot]:
        if not self.broken:
            self.broken = True
            raise WorkbenchError("the engine's socket closed in a line")
        yield self.now
        async for snapshot in super().changes():
            yield snapshot


async def test_news_that_broke_off_is_followed_again_on_space() -> None:
    client = Breaking(running())
    async with stage(running(), client=client) as on:
        await on.until(lambda: "no connection" in on.text(Header))
        assert "space connect again" in on.text(Banner)
        await on.press("space")
        await on.until(lambda: "running" in on.text(Header))
        assert client.wishes == [], "no pause was asked for"


@pytest.mark.parametrize("size", [(120, 36), (80, 24), (60, 17)])
async def test_a_long_cause_is_told_in_full_with_its_keys(size: tuple[int, int]) -> None:
    says = "ptxas is not there (/usr/bin/ptxas) - install the CUDA toolkit, or name it"
    snapshot = waiting(state=State.FAILED, pending=None, says=says)
    async with stage(snapshot, size=size) as on:
        await on.pilot.pause()
        text = " ".join(on.text(Banner).split())
        assert text == f"✗ the engine failed: {says} l log space go on"


@pytest.mark.parametrize(
    ("snapshot", "says", "never"),
    [
        (empty(), "q     leave; the run goes on", "start the engine"),
        (empty(mode="manual"), "every step waits for you to start it", "reviewed"),
        (empty(state=State.FAILED), "space start the engine again", "the run goes on"),
    ],
)
async def test_an_empty_session_hints_at_what_takes_a_person_on(
    snapshot: Snapshot, says: str, never: str
) -> None:
    async with stage(snapshot) as on:
        text = on.text(Lineage)
        assert " ".join(says.split()) in " ".join(text.split())
        assert never not in text
        assert "Why" not in on.bar
