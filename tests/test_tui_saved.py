"""What a session says that is over and measured: the demo of a person without a GPU."""

import pytest
from fake_client import measured, waiting
from fake_records import STEPS, transition
from msgspec import structs
from tui_kit import stage

from workbench.engine.view import Snapshot, State, Version
from workbench.gate.records import Stage, Verdict
from workbench.measure.records import Kind, Speed, Time
from workbench.session.records import Answer, Budget
from workbench.tui.dialogs.text import log_lines
from workbench.tui.look import Look
from workbench.tui.metrics import Metric, metrics
from workbench.tui.panes.budget import Budget as BudgetPane
from workbench.tui.panes.card import Card
from workbench.tui.panes.detail import detail
from workbench.tui.panes.lineage import Lineage
from workbench.tui.panes.profile import Profile, roof_line
from workbench.tui.panes.version import versus_seed, word
from workbench.tui.scene import Scene

TIME = Time(kind=Kind.MEASURED, microseconds=494.0, low=493.8, high=494.3)


def refused(code: str, **changes: object) -> Version:
    stage_of = Stage(code.partition(".")[0])
    row = structs.replace(
        waiting().versions[4], code=code, stage=stage_of, verdict=Verdict.REJECTED, parent=1
    )
    return structs.replace(row, **changes)


def saved(**changes: object) -> Snapshot:
    """The measured session, over: the seed was timed, and is compared with nothing."""
    seed, *others = measured().versions[:-1]
    seed = structs.replace(seed, speed_vs_seed=None, time=TIME)
    rows = (seed, *others)
    base = measured(state=State.SAVED, pending=None, current=11, engine_pid=None, log=())
    return structs.replace(base, **{"versions": rows, **changes})


# -- opening ----------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [State.SAVED, State.FINISHED, State.BUDGET])
async def test_a_run_that_is_over_opens_at_its_best_version(state: State) -> None:
    async with stage(saved(state=state)) as on:
        await on.until(lambda: "v9 against v7" in on.app.board.query_one(Profile).aside(on.scene))
        assert on.scene.selected == 9
        assert "Two stages of loads" in on.text(Card)
        await on.press("g")
        assert on.scene.selected == 11


@pytest.mark.parametrize("state", [State.FAILED, State.STOPPED, State.RUNNING])
async def test_any_other_session_opens_at_its_newest_version(state: State) -> None:
    async with stage(saved(state=state)) as on:
        assert on.scene.selected == 11


# -- rows -------------------------------------------------------------------------------------


def test_the_seed_is_as_fast_as_it_is_once_it_was_timed() -> None:
    seed = saved().versions[0]
    assert versus_seed(seed) == "1.00x"
    assert versus_seed(structs.replace(seed, time=None)) == "-"


@pytest.mark.parametrize(
    ("code", "long", "short"),
    [
        ("profile.slower", "slower", "slow"),
        ("profile.not-faster", "not faster", "no gain"),
        ("profile.pruned-static", "pruned static", "profile"),
        ("compile.same-work", "same work", "same"),
        ("compile.kernel-refused", "no build", "build"),
        ("correctness.error-above-bound", "wrong result", "wrong"),
        ("correctness.timed-out", "timed out", "checks"),
        ("policy.caches-output", "policy", "policy"),
    ],
)
def test_a_refused_version_is_called_what_the_gate_found(code: str, long: str, short: str) -> None:
    said = word(refused(code))
    assert (said.long, said.short) == (long, short)


def test_a_version_timed_against_its_parent_alone_says_how_that_came_out() -> None:
    against = Speed(kind=Kind.MEASURED, ratio=0.687, low=0.682, high=0.725)
    row = refused("profile.slower", speed_vs_seed=None, speed_vs_parent=against)
    assert word(row).long == "0.69x of v1"
    assert versus_seed(row) == "-"


# -- numbers ----------------------------------------------------------------------------------


def counted(value: float, parent: float, kind: Kind = Kind.MEASURED) -> Metric:
    return Metric(name="Active warps %", value=value, parent=parent, kind=kind, better=1)


def test_a_hair_is_neither_better_nor_worse_unless_it_was_counted_exactly() -> None:
    assert not counted(12.47, 12.5).worse
    assert counted(12.47, 12.5).hair
    assert counted(11.0, 12.5).worse
    assert counted(12.47, 12.5, Kind.EXACT).worse


def test_the_ratio_to_eager_is_the_one_that_the_gate_measured() -> None:
    gate = transition(STEPS[9], kind=Kind.MEASURED).gate
    eager = Time(kind=Kind.MEASURED, microseconds=1589.6, device="sm90")
    paired = Speed(kind=Kind.MEASURED, ratio=1.321)
    rows = metrics(structs.replace(gate, reference=eager, versus_reference=paired), None)
    assert next(row.note for row in rows if row.name == "Reference us") == "1.32x eager"
    rows = metrics(structs.replace(gate, reference=eager), None)
    assert next(row.note for row in rows if row.name == "Reference us") == ""


@pytest.mark.parametrize(("share", "told"), [(0.00045, "0.045%"), (0.629, "62.9%"), (1.0, "100%")])
def test_a_share_of_the_roof_is_never_rounded_to_all_or_nothing(share: float, told: str) -> None:
    shown = roof_line(share, "memory", Kind.MEASURED, Look(), 66).plain
    assert f" {told} of the memory roof" in shown


def test_a_measured_seed_alone_is_no_session_without_a_time() -> None:
    seed = structs.replace(saved().versions[0], best=True)
    snapshot = saved(versions=(seed,), best=0, incumbent=0, budget=Budget(steps=15, goal="1.5x"))
    lines = BudgetPane().draw(Scene(snapshot=snapshot), 66, 5)
    assert "v0 494 us  measured" in lines[-1].plain


# -- under the graph --------------------------------------------------------------------------


@pytest.mark.parametrize("width", [35, 48, 56, 116])
@pytest.mark.parametrize("height", [4, 5, 8])
def test_the_detail_keeps_its_lines_and_tells_what_was_cut(width: int, height: int) -> None:
    record = transition(STEPS[9], kind=Kind.MEASURED)
    long = " ".join(f"word{number}" for number in range(30))
    decision = structs.replace(record.decision, reason=long)
    record = structs.replace(record, decision=decision, origin="edit " + "x" * 90)
    scene = Scene(snapshot=saved(), selected=9, record=record)
    lines = detail(scene, width, height)
    assert len(lines) <= height
    assert all(line.cell_length <= width for line in lines)
    reason = " ".join(line.plain.strip() for line in lines[2:-1])
    assert reason.endswith(("…", "word29"))
    assert lines[-1].plain.rstrip().endswith("…") or width > 100


async def test_a_reason_gets_the_rows_that_the_graph_leaves() -> None:
    few = saved().versions[:2]
    async with stage(saved(versions=few, best=1, current=1, incumbent=1)) as on:
        await on.until(lambda: "took" in on.text(Lineage))
        assert "9 calls over 3 shapes" in on.text(Lineage)


# -- the log ----------------------------------------------------------------------------------


def test_without_its_log_a_session_tells_its_commits() -> None:
    look = Scene(snapshot=saved())
    shown = "\n".join(line.plain for line in log_lines(saved())(look, 80))
    assert "v9 from v7" in shown
    assert "best, 1.88x the seed" in shown
    assert "evict_last on the input: vetoed" in shown
    assert shown.count("\n") >= len(saved().versions)
    nothing = saved(versions=())
    assert "nothing has happened yet" in log_lines(nothing)(look, 80)[0].plain


def test_every_answer_has_a_word_in_the_log() -> None:
    rows = tuple(structs.replace(saved().versions[1], answer=answer) for answer in Answer)
    lines = log_lines(saved(versions=rows))(Scene(snapshot=saved()), 80)
    assert all(not line.plain.rstrip().endswith(":") for line in lines[1:])
