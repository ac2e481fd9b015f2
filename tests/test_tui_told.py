"""What the screen tells a person to type, and that it hides nothing that cannot be read."""

from pathlib import Path

import pytest
from fake_client import running, waiting
from msgspec import structs
from tui_kit import stage

from workbench.engine.view import Snapshot, State
from workbench.tui.layout import refusal
from workbench.tui.leave import leaving
from workbench.tui.panes.banner import Banner, message
from workbench.tui.scene import Scene
from workbench.tui.writes import writes

TORN = "refs/attempts/0007: the file of this reference is damaged"


def at_home(snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch, home: Path) -> Snapshot:
    monkeypatch.setenv("XDG_DATA_HOME", str(home))
    return structs.replace(snapshot, path=str(home / "workbench" / "sessions" / snapshot.name))


def test_a_farewell_names_a_session_so_that_the_command_finds_it(tmp_path, monkeypatch) -> None:
    inside = at_home(running(), monkeypatch, tmp_path)
    assert leaving(inside).farewell().endswith("workbench attach rms-quiet-otter")
    outside = structs.replace(inside, path="/data/my runs/rms-quiet-otter", state=State.LOST)
    assert leaving(outside).farewell().endswith("workbench resume '/data/my runs/rms-quiet-otter'")


def test_a_review_without_an_engine_names_the_whole_command_or_none(tmp_path, monkeypatch) -> None:
    lost = at_home(waiting(state=State.LOST), monkeypatch, tmp_path)
    assert "workbench resume rms-quiet-otter, then" in writes(lost, 12, 112)
    far = structs.replace(lost, path=f"/{'deep/' * 30}rms-quiet-otter")
    assert f"workbench resume {far.path}, then" in writes(far, 12, 300)
    assert "workbench" not in writes(far, 12, 100)


def test_a_refused_screen_names_commands_that_work_as_they_stand() -> None:
    for session, told in (("otter", "`workbench watch otter`"), ("", "`workbench watch`")):
        said = refusal((39, 24), {"TERM": "xterm"}, session=session)
        assert said is not None
        assert told in said


@pytest.mark.parametrize(
    "state", [State.RUNNING, State.SAVED, State.LOST, State.FINISHED, State.WAITING]
)
def test_a_reference_that_cannot_be_read_is_told_in_every_state(state: State) -> None:
    torn = waiting(state=state, unread=(TORN, "refs/heads/best: it is gone"))
    found = message(Scene(snapshot=torn))
    assert found is not None
    assert f"unread: {TORN} (and 1 more)" in found.text
    lineage = message(Scene(snapshot=structs.replace(torn, kind="lineage")))
    assert lineage is not None
    assert TORN in lineage.text


async def test_the_screen_shows_what_cannot_be_read() -> None:
    async with stage(waiting(unread=(TORN,))) as on:
        assert TORN in " ".join(on.text(Banner).split())
