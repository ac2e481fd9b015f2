"""Keys that come faster than screens open: each reaches what is open by then, none decides."""

from fake_client import running, waiting
from textual import events
from textual.widgets import Input
from tui_kit import Stage, stage

from workbench.session.records import Answer
from workbench.tui.board import Board
from workbench.tui.dialogs.ask import Confirm, Reason
from workbench.tui.dialogs.more import More
from workbench.tui.dialogs.review import Review


def at_once(on: Stage, text: str) -> None:
    """As a paste or a slow link hands keys over."""
    for char in text:
        on.app.post_message(events.Key("space" if char == " " else char, char))


async def test_a_veto_typed_before_the_review_is_open_keeps_every_letter() -> None:
    async with stage(waiting()) as on:
        at_once(on, "rvquick reads past the row")
        await on.until(
            lambda: (
                isinstance(on.app.screen, Reason)
                and on.app.screen.query_one(Input).value == "quick reads past the row"
            )
        )
        await on.press("enter")
        await on.until(lambda: bool(on.client.wishes))
        assert on.client.wishes == [("decide", 12, Answer.VETOED, "quick reads past the row")]


async def test_an_acceptance_typed_before_the_review_is_open_accepts_nothing() -> None:
    async with stage(waiting()) as on:
        at_once(on, "ra")
        await on.until(lambda: isinstance(on.app.screen, Review) and on.app.screen.decidable)
        assert on.client.wishes == []
        await on.press("a")
        await on.until(lambda: bool(on.client.wishes))


async def test_a_yes_typed_before_the_question_is_none() -> None:
    async with stage(running()) as on:
        at_once(on, "xy")
        await on.until(lambda: isinstance(on.app.screen, Confirm))
        await on.pilot.pause(0.1)
        assert isinstance(on.app.screen, Confirm)
        await on.press("y")
        await on.until(lambda: on.client.wishes == [("stop",)])


async def test_keys_typed_after_a_dialog_was_closed_reach_the_main_screen() -> None:
    async with stage(waiting()) as on:
        await on.press("l")
        on.app.post_message(events.Key("escape", None))
        at_once(on, "j")
        await on.until(lambda: isinstance(on.app.screen, Board) and on.scene.selected == 11)


async def test_a_form_filled_in_at_once_has_every_letter_in_its_own_field() -> None:
    async with stage(running()) as on:
        form = More(on.scene)
        await on.app.push_screen(form)
        at_once(on, "9")
        on.app.post_message(events.Key("tab", None))
        at_once(on, "30")
        on.app.post_message(events.Key("enter", "\r"))
        at_once(on, "60")
        on.app.post_message(events.Key("up", None))
        at_once(on, "5")
        await on.until(lambda: form.query_one("#wall", Input).value.endswith("60"))
        typed = [field.value for field in form.query(Input)]
        assert typed[0].endswith("9")
        assert typed[1].endswith("305")
