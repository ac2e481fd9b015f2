"""What the panes draw of a record: policy, bottleneck, roofline, lineages, states at rest."""

import pytest
from fake_client import measured, waiting
from fake_records import PLAN, STEPS, report, speed, transition
from msgspec import structs

from workbench.engine.view import State
from workbench.gate.records import Stage, Verdict
from workbench.measure.records import Kind, Time
from workbench.measure.records import Limit as TimeLimit
from workbench.session.records import BackwardStep
from workbench.skills.records import PolicyRecord
from workbench.tui.dialogs.why import why_lines
from workbench.tui.look import Look
from workbench.tui.panes.backward import backward_lines
from workbench.tui.panes.banner import message
from workbench.tui.panes.card import plan_lines
from workbench.tui.panes.lineage import _speed
from workbench.tui.panes.profile import Profile, limit_lines, reached
from workbench.tui.panes.strip import at_rest, strip
from workbench.tui.panes.version import brief
from workbench.tui.roofline import LEAST_ROWS, chart, point_of, roof_of
from workbench.tui.scene import Scene
from workbench.tui.writes import writes

LOOK = Look()
GATE = report(12, 2.31, Stage.PROFILE, Verdict.ACCEPTED, kind=Kind.MODELED)
BEFORE = report(9, 1.88, Stage.PROFILE, Verdict.ACCEPTED, kind=Kind.MODELED)
POLICY = PolicyRecord(
    structure="S3: reduction or scan", headroom="high", limit="dram-bound",
    limit_because="dram-bound, modeled: 91 % of all parts", bottleneck="memory_bandwidth",
    bottleneck_because="bytes", case="bytes.reread", case_says="the same data is loaded twice",
    ranking=tuple(f"card-{n} on rms_kernel" for n in range(6)), defaults=("ncu was not asked",),
)  # fmt: skip


def texts(lines: list) -> str:
    return "\n".join(line.plain for line in lines)


def test_the_card_shows_how_the_policy_read_the_kernel() -> None:
    shown = texts(plan_lines(structs.replace(PLAN, policy=POLICY), LOOK, 90, 40))
    for part in (
        "S3: reduction or scan; headroom high", "91 % of all parts", "case bytes.reread",
        "rank 1", "card-2", "assumed: ncu was not asked",
    ):  # fmt: skip
        assert part in shown
    assert "card-3" not in shown


def test_the_limit_is_the_one_that_the_policy_went_by() -> None:
    """A plan's own word is the model's; beside a measured profile it would contradict it."""
    plan = structs.replace(PLAN, policy=POLICY, bottleneck="latency")
    for shown in (
        texts(plan_lines(plan, LOOK, 90, 40)),
        texts(why_lines(Scene(snapshot=waiting(plan=plan), selected=12), 90)),
    ):
        assert "limit  dram-bound, modeled: 91 %" in shown
        assert "latency" not in shown
    unread = structs.replace(PLAN, policy=structs.replace(POLICY, limit=""), bottleneck="")
    assert "limit  unknown" in texts(plan_lines(unread, LOOK, 90, 40))


def test_a_bottleneck_stands_with_the_numbers_that_speak_for_it() -> None:
    shown = texts(limit_lines(GATE, LOOK, 90))
    assert "dram-bound, modeled" in shown
    assert "static.occupancy 0.19 <= 0.25" in shown


def test_the_share_of_a_measured_limit_names_bound_and_source() -> None:
    limit = TimeLimit(us=200.0, says="9e+08 bytes at 4271 GB/s", bound="memory", source="datasheet")
    gate = report(12, 2.31, Stage.PROFILE, Verdict.ACCEPTED, kind=Kind.MEASURED)
    shown = texts(limit_lines(structs.replace(gate, limit=limit), LOOK, 90))
    assert "% of limit (memory, datasheet): 9e+08 bytes" in shown


# -- the roofline ---------------------------------------------------------------------------------


def test_no_version_stands_above_its_roof_by_more_than_its_model() -> None:
    point, roof = point_of(GATE), roof_of(GATE)
    assert point is not None
    assert roof is not None
    assert 0 < point.tflops <= roof.at(point.intensity)
    share, bound = reached(GATE)
    assert share == pytest.approx(219.8 / GATE.time.microseconds)
    assert bound == "memory"


def test_the_roof_of_products_is_that_of_their_operands() -> None:
    trace = structs.replace(GATE.traces[0], dot_flops={"bfloat16": 1e12}, vector_flops=0.0)
    gate = structs.replace(GATE, traces=(trace,))
    roof = roof_of(gate)
    assert roof is not None
    assert roof.pipe == "bfloat16"
    assert reached(gate)[1] == "arithmetic"


@pytest.mark.parametrize("rows", range(12))
def test_the_chart_takes_no_more_rows_than_there_are(rows: int) -> None:
    lines = chart(GATE, BEFORE, LOOK, 66, rows)
    assert len(lines) <= rows
    assert bool(lines) == (rows >= LEAST_ROWS)
    assert all(line.cell_length <= 66 for line in lines[:-1])
    if lines:
        assert texts(lines).count("◉") == 1
        assert "modeled" in lines[-1].plain


def test_without_counted_work_there_is_no_chart() -> None:
    assert chart(structs.replace(GATE, traces=()), None, LOOK, 66, 12) == []


def test_the_profile_of_a_high_pane_has_the_chart() -> None:
    scene = Scene(
        snapshot=waiting(), selected=12, record=transition(STEPS[12]), parent=transition(STEPS[9])
    )
    assert "flop per byte" in texts(Profile().draw(scene, 100, 40))
    assert "flop per byte" not in texts(Profile().draw(scene, 66, 14))


# -- lineages -------------------------------------------------------------------------------------


def test_a_step_of_a_lineage_shows_both_validations() -> None:
    step = BackwardStep(
        category="persistent-programs", locus="a wave of programs", before="a" * 64,
        after="b" * 64, backward="-", forward="+", predecessor="213.5 us modeled for sm90",
        roundtrip="accepted, 216.7 us", ratio=1.054,
    )  # fmt: skip
    shown = texts(backward_lines(transition(STEPS[12]), step, LOOK, 90))
    assert "persistent-programs: a wave of programs" in shown
    assert "without it: 213.5 us modeled for sm90" in shown
    assert "put back: accepted, 216.7 us, 1.054x" in shown
    assert "another text, gated anew" in shown


@pytest.mark.parametrize(
    ("us", "shown"),
    [
        (14.64, "14.6us"),
        (437.9, "438us"),
        (999.7, "1ms"),
        (2251.1, "2.25ms"),
        (29839.2, "29.8ms"),
    ],
)
def test_a_step_of_a_lineage_that_was_not_timed_beside_the_seed_shows_its_time(
    us: float, shown: str
) -> None:
    newest = waiting(kind="lineage").versions[-1]
    time = Time(kind=Kind.MEASURED, microseconds=us)
    assert brief(time) == shown
    assert brief(structs.replace(time, kind=Kind.MODELED)) == "-"
    scene = Scene(snapshot=waiting(kind="lineage"), selected=12)
    bare = structs.replace(newest, time=time, speed_vs_seed=None)
    assert _speed(bare, scene) == shown
    assert _speed(bare, Scene(snapshot=waiting(), selected=12)) == "-"
    assert _speed(structs.replace(bare, speed_vs_seed=speed(1.5)), scene) == "~1.50x"


# -- states ---------------------------------------------------------------------------------------


def test_at_rest_the_strip_is_about_the_version_that_is_looked_at() -> None:
    record = transition(STEPS[10])
    saved = Scene(snapshot=waiting(state=State.SAVED, pending=None), selected=10, record=record)
    assert strip(at_rest(saved), 118).plain.startswith("v10")
    alive = Scene(snapshot=waiting(), selected=10, record=record)
    assert strip(at_rest(alive), 118).plain.startswith("v12")


def test_a_saved_lineage_is_no_run_to_go_on_with() -> None:
    said = message(Scene(snapshot=waiting(state=State.SAVED, kind="lineage", pending=None)))
    assert said is not None
    assert "an expert taken apart" in said.text


def test_the_border_says_which_references_an_answer_moves() -> None:
    assert writes(waiting(), 12, 112) == (
        "accept: commit refs/attempts/0012, main and best move to it;"
        " veto: commit it, main stays v9"
    )
    slower = tuple(
        structs.replace(v, speed_vs_seed=structs.replace(v.speed_vs_seed, ratio=1.0))
        if v.number == 12
        else v
        for v in waiting().versions
    )
    assert "main moves to it" in writes(waiting(versions=slower), 12, 112)
    assert "workbench resume" in writes(waiting(state=State.LOST), 12, 112)
    assert writes(measured(), 3, 112).endswith("accepted; read only")
