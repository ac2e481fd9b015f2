"""A person steers from the screen: another card, a plan in words, a hint for the model."""

from fake_client import FakeClient, waiting
from fake_records import PLAN
from msgspec import structs
from tui_kit import Stage, stage

from workbench.engine.view import Snapshot
from workbench.engine.wishes import Choose
from workbench.skills.records import PolicyRecord
from workbench.tui.dialogs.ask import Reason
from workbench.tui.dialogs.next_step import NextStep
from workbench.tui.dialogs.text import TextBox

RANKING = (
    "row-on-chip on rms_kernel: bytes.reread; 1.3x expected, medium",
    "drop-masks on rms_kernel: bytes.floor; 1.01x expected, small",
)


def ranked() -> Snapshot:
    policy = PolicyRecord(ranking=RANKING)
    return waiting(plan=structs.replace(PLAN, policy=policy))


async def listed(on: Stage) -> NextStep:
    await on.press("c")
    await on.until(lambda: isinstance(on.app.screen, NextStep))
    screen = on.app.screen
    assert isinstance(screen, NextStep)
    await on.until(lambda: screen.listing.current is not None)
    return screen


async def test_a_card_of_the_ranking_becomes_the_next_step() -> None:
    async with stage(ranked()) as on:
        screen = await listed(on)
        rows = [row.cells for row in screen.listing._shown]
        assert rows[0][:2] == ("1", "row-on-chip")
        assert "1.3x expected" in rows[0][3]
        assert rows[1][:2] == ("2", "drop-masks")
        assert ("-", "online-softmax") in {cells[:2] for cells in rows}
        await on.press("j", "c")
        await on.until(lambda: bool(on.client.wishes))
        assert on.client.wishes == [("choose", Choose(skill="drop-masks", kernel="rms_kernel"))]
        await on.until(lambda: "drop-masks is the next step" in on.toasts)


async def test_a_card_is_read_before_it_is_chosen_and_a_choice_is_taken_back() -> None:
    async with stage(ranked()) as on:
        await listed(on)
        await on.press("enter")
        await on.until(lambda: isinstance(on.app.screen, TextBox))
        await on.press("escape", "d")
        await on.until(lambda: bool(on.client.wishes))
        assert on.client.wishes == [("choose", Choose())]


async def test_a_plan_in_words_goes_with_its_card() -> None:
    async with stage(ranked()) as on:
        await listed(on)
        await on.press("p")
        assert isinstance(on.app.screen, Reason)
        await on.press("enter")
        assert on.client.wishes == []
        await on.press(*"two rows", "enter")
        await on.until(lambda: bool(on.client.wishes))
        wish = Choose(skill="row-on-chip", kernel="rms_kernel", change="two rows")
        assert on.client.wishes == [("choose", wish)]


async def test_leaving_the_list_chooses_nothing_and_a_lineage_has_none() -> None:
    async with stage(ranked()) as on:
        await listed(on)
        await on.press("escape")
        assert on.client.wishes == []
    async with stage(ranked(), client=FakeClient(waiting(kind="lineage"))) as on:
        await on.press("c")
        assert "it has no next step" in on.toasts


async def test_a_hint_reaches_the_engine() -> None:
    async with stage(waiting()) as on:
        await on.press("H", *"keep it", "enter")
        await on.until(lambda: bool(on.client.wishes))
        assert on.client.wishes == [("hint", "keep it")]
        await on.until(lambda: "kept for the prompts from v13 on" in on.toasts)
