"""The rules of the review: what decides, what does not, and what is on screen meanwhile."""

import threading

import pytest
from fake_client import FakeClient, waiting
from fake_records import STEPS, transition
from msgspec import structs
from textual.widgets import Input
from tui_kit import Stage, stage

from workbench.engine.view import Snapshot, State
from workbench.gate.records import Finding, Outcome
from workbench.gate.records import Stage as GateStage
from workbench.session.records import Answer
from workbench.tui.board import Board
from workbench.tui.dialogs.ask import Confirm, Reason
from workbench.tui.dialogs.facts import facts
from workbench.tui.dialogs.review import Review
from workbench.tui.dialogs.text import Text, TextBox
from workbench.tui.panes.header import Header
from workbench.tui.scene import Scene

# -- deciding -----------------------------------------------------------------------------------


async def test_accept_and_veto_do_nothing_on_the_main_screen() -> None:
    async with stage(waiting()) as on:
        await on.press("a", "v", "enter")
        assert on.client.wishes == []
        assert isinstance(on.app.screen, Board)


async def test_accept_in_the_review_names_the_version_on_screen() -> None:
    async with stage(waiting()) as on:
        review = await on.review()
        assert "a Accept" in on.bar
        assert any("tl.sum(x * x)" in text.plain for text in review.diff.painted.lines)
        await on.press("a")
        await on.until(lambda: isinstance(on.app.screen, Board))
        assert on.client.wishes == [("decide", 12, Answer.ACCEPTED, "")]
        assert "v12 accepted" in on.toasts


@pytest.mark.parametrize("key", ["enter", "escape", "q", "space", "y", "n", "tab"])
async def test_no_other_key_of_the_review_decides(key: str) -> None:
    async with stage(waiting()) as on:
        await on.review()
        await on.press(key)
        assert on.client.wishes == []
        assert on.client.now.pending == 12


async def test_a_veto_without_a_reason_is_not_sent() -> None:
    async with stage(waiting()) as on:
        await on.review()
        await on.press("v", "enter")
        assert isinstance(on.app.screen, Reason)
        await on.press("space", "space", "enter")
        assert isinstance(on.app.screen, Reason)
        await on.press("escape")
        assert isinstance(on.app.screen, Review)
        assert on.client.wishes == []


async def test_the_reason_of_a_veto_reaches_the_engine() -> None:
    async with stage(waiting()) as on:
        await on.review()
        await on.press("v")
        on.app.screen.query_one(Input).value = "  occupancy falls too far "
        await on.press("enter")
        await on.until(lambda: isinstance(on.app.screen, Board))
        assert on.client.wishes == [("decide", 12, Answer.VETOED, "occupancy falls too far")]


async def test_a_refused_answer_is_shown_and_the_review_stays() -> None:
    async with stage(waiting()) as on:
        on.client.refuse = "v12 is not the one that waits; nothing was changed"
        review = await on.review()
        await on.press("a")
        await on.until(lambda: bool(review.facts.refusal))
        assert "v12 is not the one that waits" in "\n".join(review.facts.shown_lines)
        assert isinstance(on.app.screen, Review)
        assert "a Accept" in on.bar


async def test_what_is_decided_elsewhere_can_no_longer_be_decided_here() -> None:
    async with stage(waiting()) as on:
        review = await on.review()
        decided = tuple(
            structs.replace(v, answer=Answer.ACCEPTED) if v.number == 12 else v
            for v in waiting().versions
        )
        on.client.push(waiting(versions=decided, pending=None, state=State.RUNNING))
        await on.until(lambda: not review.decidable)
        assert "Accept" not in on.bar
        await on.press("a", "v")
        assert on.client.wishes == []
        await on.until(lambda: "accepted by person" in "\n".join(review.facts.shown_lines))


async def test_a_veto_typed_too_late_is_not_sent_and_says_so() -> None:
    async with stage(waiting()) as on:
        review = await on.review()
        await on.press("v")
        on.client.push(waiting(pending=None, state=State.RUNNING))
        await on.until(lambda: not review.decidable)
        on.app.screen.query_one(Input).value = "too slow"
        await on.press("enter")
        assert on.client.wishes == []
        assert "no longer waits" in review.facts.refusal


async def test_a_version_that_does_not_wait_is_read_only() -> None:
    async with stage(waiting()) as on:
        await on.press("j", "j")
        review = await on.review("d")
        assert review.number == 10
        assert "Accept" not in on.bar
        assert "read only" in str(review.query_one(".box").border_subtitle)
        await on.press("a", "v")
        assert on.client.wishes == []


async def test_r_opens_the_waiting_version_whatever_is_selected() -> None:
    async with stage(waiting()) as on:
        await on.press("j", "j")
        assert (await on.review()).number == 12


async def test_without_an_engine_nothing_can_be_decided() -> None:
    async with stage(waiting(state=State.SAVED)) as on:
        review = await on.review()
        assert "Accept" not in on.bar
        assert "workbench resume" in str(review.query_one(".box").border_subtitle)


async def test_unmet_and_unknown_conditions_stand_in_the_review() -> None:
    async with stage(waiting()) as on:
        facts = "\n".join((await on.review()).facts.shown_lines)
        assert "✗ a row fits 64 registers a thread" in facts
        assert "? no spills after the step" in facts
        assert "modeled, no interval" in facts
        assert "The input is read twice" in facts


# -- the diff -----------------------------------------------------------------------------------


def test_a_review_tells_evidence_isolation_and_the_seed_that_repeats_it() -> None:
    record = transition(STEPS[10])
    stages = tuple(
        structs.replace(
            stage,
            isolation="landlock+seccomp" if stage.stage is GateStage.COMPILE else stage.isolation,
            findings=(
                Finding(code="compile.too-large", says="too much shared memory",
                        evidence={"required": 262144, "limit": 232448}),
            ) if stage.stage is GateStage.COMPILE else (),
            outcome=Outcome.FAILED if stage.stage is GateStage.COMPILE else stage.outcome,
        )
        for stage in record.gate.stages
    )  # fmt: skip
    gate = structs.replace(record.gate, stages=stages, replay_seed="0badcafe")
    scene = Scene(snapshot=waiting(), selected=10)
    shown = " ".join(c.plain for c in facts(scene, structs.replace(record, gate=gate), 80))
    assert "required=262144, limit=232448" in shown
    assert "isolation landlock+seccomp; --seed 0badcafe repeats its inputs" in shown


async def test_the_diff_is_split_by_width_and_s_turns_it() -> None:
    async with stage(waiting()) as on:
        diff = (await on.review()).diff
        assert diff.is_split
        await on.press("s")
        assert not diff.is_split
    async with stage(waiting(), size=(80, 24)) as on:
        assert not (await on.review()).diff.is_split


async def test_n_and_p_go_from_change_to_change() -> None:
    async with stage(waiting(), size=(80, 24)) as on:
        diff = (await on.review()).diff
        await on.press("n")
        first = diff.scroll_offset.y
        await on.press("n")
        second = diff.scroll_offset.y
        assert 0 < first < second
        await on.press("p")
        assert diff.scroll_offset.y == first


async def test_w_shows_the_whole_file() -> None:
    async with stage(waiting()) as on:
        diff = (await on.review()).diff
        assert any("unchanged lines" in text.plain for text in diff.painted.lines)
        await on.press("w")
        assert not any("unchanged lines" in text.plain for text in diff.painted.lines)


# -- before it is read ---------------------------------------------------------------------------


class SlowClient(FakeClient):
    """Whose sources come when the test says so."""

    def __init__(self) -> None:
        super().__init__(waiting())
        self.read = threading.Event()

    def sources(self, number: int) -> tuple[str, str]:
        assert self.read.wait(20)
        return super().sources(number)


async def test_a_veto_typed_before_the_version_is_read_goes_where_it_was_meant_to() -> None:
    client = SlowClient()
    async with stage(waiting(), client=client) as on:
        await on.press("r", "v", *"axiq space")
        client.read.set()
        assert isinstance(on.app.screen, Reason)
        await on.press("enter")
        await on.until(lambda: isinstance(on.app.screen, Board))
        assert client.wishes == [("decide", 12, Answer.VETOED, "axiq space")]


async def test_nothing_is_accepted_before_it_is_on_screen() -> None:
    client = SlowClient()
    async with stage(waiting(), client=client) as on:
        await on.press("r", "a", "A", "E", "x", "space")
        assert isinstance(on.app.screen, Review)
        client.read.set()
        await on.app.screen.ready.wait()
        await on.pilot.pause()
        assert client.wishes == []
        assert "a Accept" in on.bar


# -- a wider yes -----------------------------------------------------------------------------------


def after(number: int, card: str, answer: Answer = Answer.PENDING, **changes: object) -> Snapshot:
    """The session when one more version came; it waits, unless it was decided."""
    base = waiting(pending=None, state=State.RUNNING)
    twelve = structs.replace(base.versions[12], answer=Answer.ACCEPTED)
    newest = structs.replace(twelve, number=number, card=card, answer=answer, parent=12)
    waits = answer is Answer.PENDING
    state = State.WAITING if waits else State.RUNNING
    return structs.replace(
        base, versions=(*base.versions[:12], twelve, newest), current=number, state=state,
        pending=number if waits else None, **changes,
    )  # fmt: skip


async def widened(on: Stage) -> None:
    await on.review()
    await on.press("A")
    assert isinstance(on.app.screen, Confirm)
    await on.press("y")
    await on.until(lambda: isinstance(on.app.screen, Board))


async def test_a_wider_yes_is_asked_for_and_no_is_no() -> None:
    async with stage(waiting()) as on:
        await on.review()
        await on.press("A", "n")
        assert isinstance(on.app.screen, Review)
        assert on.client.wishes == []
        assert on.scene.scope == ""


async def test_a_wider_yes_answers_for_the_same_card_and_says_so_in_git() -> None:
    async with stage(waiting()) as on:
        await widened(on)
        await on.until(lambda: on.scene.scope == "storage/row-on-chip")
        assert "accepting storage/row-on-chip until a gate fails" in on.text(Header)
        on.client.push(after(13, "storage/row-on-chip"))
        await on.until(lambda: len(on.client.wishes) == 2)
        _, number, answer, reason = on.client.wishes[1]
        assert (number, answer) == (13, Answer.ACCEPTED)
        assert reason == "every step of storage/row-on-chip until a gate fails, as said at v12"


async def test_a_wider_yes_leaves_another_card_to_the_person() -> None:
    async with stage(waiting()) as on:
        await widened(on)
        on.client.push(after(13, "launch/warps"))
        await on.until(lambda: on.scene.snapshot.pending == 13)
        assert len(on.client.wishes) == 1


async def test_a_wider_yes_ends_with_the_first_gate_that_fails() -> None:
    async with stage(waiting()) as on:
        await widened(on)
        await on.until(lambda: bool(on.scene.scope))
        on.client.push(after(13, "launch/warps", Answer.REJECTED))
        await on.until(lambda: not on.scene.scope)
        assert "v13 failed at profile" in on.toasts
        on.client.push(after(14, "storage/row-on-chip"))
        await on.until(lambda: on.scene.snapshot.pending == 14)
        assert len(on.client.wishes) == 1


async def test_a_wider_yes_is_taken_back_by_the_key_that_gave_it() -> None:
    async with stage(waiting()) as on:
        await widened(on)
        await on.until(lambda: bool(on.scene.scope))
        await on.press("A")
        assert on.scene.scope == ""
        on.client.push(after(13, "storage/row-on-chip"))
        await on.until(lambda: on.scene.snapshot.pending == 13)
        assert len(on.client.wishes) == 1


# -- asking why ----------------------------------------------------------------------------------


async def test_why_shows_the_reason_and_what_was_passed_over_and_decides_nothing() -> None:
    async with stage(waiting()) as on:
        await on.review()
        await on.press("e")
        assert isinstance(on.app.screen, TextBox)
        shown = "\n".join(on.app.screen.query_one(Text).shown_lines)
        assert "The input is read twice" in shown
        assert "row-on-chip before eviction" in shown
        await on.press("escape")
        assert isinstance(on.app.screen, Review)
        assert on.client.wishes == []
