"""Comparing versions, handing in an edit, and the model's words as they stream."""

import stat
from pathlib import Path

import pytest
from fake_client import FakeClient, running, waiting
from fake_records import SOURCE
from msgspec import structs
from tui_kit import Stage, stage

from workbench.engine.view import Talk
from workbench.session.records import Answer
from workbench.tui import editor
from workbench.tui.board import Board
from workbench.tui.dialogs.ask import Confirm
from workbench.tui.dialogs.compare import Compare
from workbench.tui.dialogs.review import Review
from workbench.tui.dialogs.thoughts import Stream, Thoughts
from workbench.tui.panes.card import Card
from workbench.tui.panes.lineage import Lineage


async def compared(on: Stage) -> Compare:
    """Version 9 marked, version 12 selected, the comparison open."""
    await on.press("j", "j", "j", "m", "g", "D")
    await on.until(lambda: isinstance(on.app.screen, Compare))
    assert isinstance(on.app.screen, Compare)
    await on.app.screen.ready.wait()
    await on.pilot.pause()
    return on.app.screen


async def test_any_two_versions_are_compared_in_source_profile_and_code() -> None:
    async with stage(waiting()) as on:
        shown = await compared(on)
        assert "v9'" in on.text(Lineage)
        assert str(shown.query_one(".box").border_title).startswith("v9 → v12")
        assert shown.diff.display
        await on.press("2")
        rows = "\n".join(shown.numbers.shown_lines)
        assert "rms_kernel: compiled" in rows
        assert "registers" in rows
        assert "exact" in rows
        await on.press("escape")
        assert isinstance(on.app.screen, Board)


async def test_what_is_still_being_read_is_said_to_be() -> None:
    async with stage(waiting(), size=(80, 24)) as on:
        shown = await compared(on)
        shown.pair, shown.code = None, None
        for view in ("source", "profile", "sass"):
            shown.action_view(view)
            await on.until(lambda: "reading…" in "".join(shown.numbers.shown_lines))
            assert not shown.diff.display


def lines_of(shown: Compare) -> str:
    return "\n".join(painted.plain for painted in shown.diff.painted.lines)


async def test_generated_code_is_compared_level_by_level_under_one_naming() -> None:
    async with stage(waiting(), size=(80, 24)) as on:
        shown = await compared(on)
        for key, level, came in (
            ("3", "ttgir", "evictionPolicy = evict_first"),
            ("4", "ptx", "ld.global.L1::evict_first.v4.b32"),
            ("5", "sass", "LDG.E.EF.128"),
        ):
            await on.press(key)
            await on.until(lambda shown=shown: shown.diff.display and bool(shown.levels))
            assert came in lines_of(shown)
            assert "loc(" not in lines_of(shown)
            # Only the load changed, though every register after it has another number.
            assert shown.diff.hunk[1] == 1
            assert f"{level.upper()}: 1 line went, 1 came" in str(
                shown.query_one(".box").border_subtitle
            )


async def test_code_from_before_it_was_kept_is_said_to_be_and_compiled_on_request() -> None:
    client = FakeClient(waiting())
    client.kept_code = False
    async with stage(client.now, client=client) as on:
        shown = await compared(on)
        await on.press("4")
        await on.until(lambda: bool(shown.numbers.shown_lines))
        says = " ".join("\n".join(shown.numbers.shown_lines).split())
        assert "v9 is from before generated code was kept" in says
        assert "c compiles it now with triton" in says
        assert "c Compile" in on.bar
        await on.press("c")
        await on.until(lambda: shown.diff.display)
        assert "evict_first" in lines_of(shown)
        assert "compiled now with triton 3.9.0" in str(shown.query_one(".box").border_subtitle)
        assert "c Compile" not in on.bar


async def test_without_a_mark_the_key_is_named() -> None:
    async with stage(waiting()) as on:
        await on.press("D")
        assert isinstance(on.app.screen, Board)
        assert "mark a version first: m" in on.toasts


async def test_the_mark_is_taken_away_by_the_key_that_set_it() -> None:
    async with stage(waiting()) as on:
        await on.press("m", "m")
        assert on.scene.mark is None


# -- edits ----------------------------------------------------------------------------------------


def pretend(monkeypatch: pytest.MonkeyPatch, changed: str) -> list[Path]:
    """A test has no terminal to give to an editor, so what it would have saved is written here."""
    opened: list[Path] = []

    def edit(_app: object, path: Path) -> None:
        opened.append(path)
        path.write_text(path.read_text() + changed)

    monkeypatch.setattr("workbench.tui.app.open_editor", edit)
    return opened


async def test_an_edit_vetoes_the_version_and_is_gated_as_the_next(
    monkeypatch: pytest.MonkeyPatch, own_home: Path
) -> None:
    opened = pretend(monkeypatch, "# mine\n")
    async with stage(waiting()) as on:
        await on.review()
        await on.press("E")
        assert isinstance(on.app.screen, Confirm)
        assert on.client.wishes == []
        await on.press("y")
        await on.until(lambda: len(on.client.wishes) == 4)
        pause, veto, submit, go = on.client.wishes
        assert (pause, go) == (("pause",), ("go",))
        assert veto[:3] == ("decide", 12, Answer.VETOED)
        assert submit[1].source == SOURCE + "# mine\n"
        assert submit[1].origin == "edit of v12 by hand"
        await on.until(lambda: isinstance(on.app.screen, Board))
    assert opened[0].is_relative_to(own_home)
    assert stat.S_IMODE(opened[0].parent.stat().st_mode) == 0o700


async def test_an_edit_that_is_not_handed_in_is_kept_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = pretend(monkeypatch, "# mine\n")
    async with stage(waiting()) as on:
        await on.review()
        await on.press("E", "n")
        assert isinstance(on.app.screen, Review)
        assert on.client.wishes == []
        assert str(opened[0]) in on.toasts
        assert opened[0].read_text().endswith("# mine\n")


async def test_an_editor_that_changed_nothing_leaves_the_version_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pretend(monkeypatch, "")
    async with stage(waiting()) as on:
        await on.review()
        await on.press("E")
        assert isinstance(on.app.screen, Review)
        assert on.client.wishes == []


def test_a_second_edit_never_overwrites_the_first() -> None:
    one = editor.draft("rms", 3, "a\n")
    other = editor.draft("rms", 3, "b\n")
    assert (one.read_text(), other.read_text()) == ("a\n", "b\n")


# -- the model ------------------------------------------------------------------------------------


def talking(**changes: object) -> Talk:
    talk = Talk(
        number=12, role="planner", model="some-model", says="about 12,400 tokens, at most $0.21",
        reasoning="The row is read twice.\nHold it in registers.",
    )  # fmt: skip
    return structs.replace(talk, **changes)


async def test_the_card_of_the_step_under_way_shows_what_the_model_thinks() -> None:
    async with stage(running(talk=talking(), plan=None)) as on:
        await on.until(lambda: "Hold it in registers." in on.text(Card))
        assert "at most $0.21" in on.text(Card)


async def test_the_stream_follows_its_end_and_can_be_read_back() -> None:
    client = FakeClient(running(talk=talking()))
    async with stage(client.now, client=client, size=(80, 24)) as on:
        await on.press("T")
        assert isinstance(on.app.screen, Thoughts)
        text = "\n".join(f"line {number}" for number in range(100))
        client.push(running(talk=talking(text=text)))
        stream = on.app.screen.query_one(Stream)
        await on.until(lambda: "line 99" in stream.shown_lines[-1])
        await on.press("k", "k", "k")
        client.push(running(talk=talking(text=text + "\nline 100")))
        await on.until(lambda: on.app.scene.snapshot.talk.text.endswith("100"))
        assert "line 100" not in "\n".join(stream.shown_lines)
        await on.press("G")
        assert "line 100" in stream.shown_lines[-1]


async def test_without_a_model_the_key_says_so() -> None:
    async with stage(waiting()) as on:
        await on.press("T")
        assert "no model was asked" in on.toasts
