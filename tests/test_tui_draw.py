"""Everything that the screen draws with, without a screen."""

import re
import subprocess
from pathlib import Path

import pytest
from fake_client import empty, many, measured, running, waiting
from fake_records import PARENT_SOURCE, SOURCE, STEPS, transition
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from rich.cells import cell_len

from workbench.engine.funnel import funnel
from workbench.engine.view import State
from workbench.measure.records import Kind, Speed, Time
from workbench.session.records import Answer
from workbench.tui.diff.paint import paint, prepare
from workbench.tui.diff.rows import compare, folded, hunk_starts, patch, unified
from workbench.tui.draw import bar, duration, figure, fit, line, sparkline, wrapped
from workbench.tui.keys import KEYS, TOGETHER, keymap
from workbench.tui.layout import Layout, layout_of, refusal
from workbench.tui.leave import leaving
from workbench.tui.look import Look, dressed, look_for, visible
from workbench.tui.metrics import metrics, roof_share
from workbench.tui.panes.budget import best_history, meters
from workbench.tui.panes.card import plan_lines
from workbench.tui.panes.header import header
from workbench.tui.panes.profile import Profile
from workbench.tui.panes.strip import strip
from workbench.tui.panes.version import times
from workbench.tui.scene import Scene
from workbench.tui.settings import load_settings

LOOK = Look()


# -- pieces of a line ---------------------------------------------------------------------------


@given(st.text(max_size=40), st.integers(min_value=0, max_value=30))
def test_a_fitted_text_never_takes_more_than_its_room(text: str, width: int) -> None:
    assert cell_len(fit(visible(text), width)) <= width


@given(st.text(alphabet="ab 漢字é", max_size=60), st.integers(min_value=2, max_value=20))
def test_wrapping_loses_no_character_but_blanks(text: str, width: int) -> None:
    lines = wrapped(text, width)
    assert all(cell_len(part) <= width for part in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


@pytest.mark.parametrize(("share", "full"), [(-1.0, 0), (0.0, 0), (0.5, 5), (1.0, 10), (7.0, 10)])
def test_a_bar_stays_in_its_room(share: float, full: int) -> None:
    drawn, rest = bar(share, 10, "", "")
    assert (drawn[0], len(drawn[0]) + len(rest[0])) == ("━" * full, 10)


def test_a_thinned_sparkline_ends_with_the_newest_value() -> None:
    assert sparkline([0.0] * 99 + [1.0], 10) == "▁" * 9 + "█"
    assert sparkline([], 10) == ""


@pytest.mark.parametrize(
    ("seconds", "says"),
    [(0.02, "0.02 s"), (8.2, "8.2 s"), (31, "31 s"), (250, "4 min 10 s"), (7500, "2 h 05 min")],
)
def test_durations_read_like_a_person_says_them(seconds: float, says: str) -> None:
    assert duration(seconds) == says


def test_figures_have_no_exponent() -> None:
    assert [figure(v) for v in (0.0341, 1.254, 12.42, 1830.4, 0.0)] == [
        "0.034", "1.25", "12.4", "1830", "0",
    ]  # fmt: skip


# -- safety and glyphs --------------------------------------------------------------------------


def test_what_a_terminal_would_obey_is_shown_and_not_sent() -> None:
    hostile = "a\x1b[2Jb\u202ec\x07d\u200be\x9bf"
    shown = visible(hostile)
    assert len(shown) == len(hostile)
    assert not set(shown) & set("\x1b\u202e\x07\u200b\x9b")


def test_ascii_glyphs_leave_nothing_outside_ascii() -> None:
    scene = Scene(snapshot=waiting(), look=look_for(colours=True, ascii_glyphs=True), selected=12)
    for text in (header(scene, 120), strip(scene, 120), line("▁▂▃▄▅▆▇█ ⣿ ✗ …")):
        drawn = dressed(text, scene.look).plain
        assert drawn.isascii()
        assert len(drawn) == len(text.plain)


# -- header, strip, meters ----------------------------------------------------------------------


def test_the_header_names_session_problem_device_target_mode_state_and_step() -> None:
    text = header(Scene(snapshot=measured(), selected=12), 140).plain
    for word in ("rmsnorm", "rms-quiet-otter", "NVIDIA H200", "sm90", "review mode",
                 "your review", "step 12 of 60"):  # fmt: skip
        assert word in text


@given(st.integers(min_value=38, max_value=160))
def test_header_and_strip_never_run_over_the_edge(width: int) -> None:
    for snapshot in (waiting(), running(), empty()):
        scene = Scene(snapshot=snapshot, selected=12)
        assert header(scene, width).cell_length <= width
        assert strip(scene, width).cell_length <= width


def test_the_strip_says_where_the_step_stands() -> None:
    assert "◐ correctness 3 of 9 calls" in strip(Scene(snapshot=running()), 120).plain
    assert "✓ profile 0.8 s ── ◆ your decision" in strip(Scene(snapshot=waiting()), 120).plain


def test_overdue_news_is_told_only_while_the_engine_works() -> None:
    assert "no news for 40 s" in header(Scene(snapshot=running(), age=47), 120).plain
    assert "your review" in header(Scene(snapshot=waiting(), age=47), 120).plain


def test_the_funnel_counts_how_far_versions_came() -> None:
    counts = {rung.name: rung.count for rung in funnel(waiting())}
    assert counts == {
        "policy": 13, "compile": 12, "correctness": 11, "profile": 10, "accepted": 6,
    }  # fmt: skip


def test_meters_show_limits_and_what_is_left() -> None:
    found = {meter.name: meter for meter in meters(measured())}
    assert found["GPU"].text == "1284 of 3600 s"
    assert found["GPU"].left == "39 min left"
    assert found["Model"].left == "$1.88 left"
    assert found["Time"].share is None


def test_the_best_so_far_ignores_what_was_not_accepted() -> None:
    history = best_history(waiting())
    assert history[-1] == 1.88
    assert list(history) == sorted(history)


def test_a_lineage_whose_steps_know_only_their_times_still_rises() -> None:
    seed, *rest = measured().versions[:3]
    times_us = [Time(kind=Kind.MEASURED, microseconds=us) for us in (400.0, 200.0, 100.0)]
    walked = [
        structs.replace(one, time=us, speed_vs_seed=None, answer=Answer.ACCEPTED)
        for one, us in zip((seed, *rest), times_us, strict=True)
    ]
    last = structs.replace(walked[-1], speed_vs_seed=Speed(kind=Kind.MEASURED, ratio=4.0))
    lineage = structs.replace(measured(), versions=(*walked[:-1], last), best=last.number)
    assert best_history(lineage) == (1.0, 2.0, 4.0)
    modeled = structs.replace(walked[1], time=structs.replace(times_us[1], kind=Kind.MODELED))
    assert best_history(structs.replace(lineage, versions=(walked[0], modeled, last))) == (
        1.0,
        1.0,
        4.0,
    )


def test_a_modeled_speed_is_never_shown_as_a_measured_one() -> None:
    modeled, real = waiting().versions[9], measured().versions[9]
    assert times(modeled.speed_vs_seed) == "~1.88x"
    assert times(real.speed_vs_seed) == "1.88x"


# -- card and profile ---------------------------------------------------------------------------


def test_unmet_conditions_come_first_with_their_evidence() -> None:
    record = transition(STEPS[12])
    assert record.plan is not None
    lines = [text.plain for text in plan_lines(record.plan, LOOK, 90, 40)]
    marks = [text[1] for text in lines if text[1:2] in {"✗", "?", "✓"}]
    assert marks == ["✗", "?", "✓", "✓", "✓"]
    assert "8192 / 128 = 64.0 and 26 are taken" in " ".join(lines)
    assert "The input is read twice" in " ".join(lines)


def test_metrics_carry_their_kind_and_what_got_worse() -> None:
    found = {m.name: m for m in metrics(transition(STEPS[12]).gate, transition(STEPS[9]).gate)}
    assert found["Time us"].kind is Kind.MODELED
    assert found["Regs/thread"].kind is Kind.EXACT
    assert found["Regs/thread"].worse
    assert not found["Time us"].worse
    assert found["Occupancy %"].note == "registers"


def test_the_roofline_compares_the_least_time_of_the_bytes_with_the_time() -> None:
    assert roof_share(transition(STEPS[12]).gate) == pytest.approx(219.8 / (840 / 2.31))
    assert roof_share(transition(STEPS[2]).gate) is None


def test_times_of_different_kinds_are_never_compared() -> None:
    own = transition(STEPS[12], kind=Kind.MEASURED).gate
    found = {m.name: m for m in metrics(own, transition(STEPS[9]).gate)}
    assert found["Time us"].parent is None


@pytest.mark.parametrize("width", [41, 64])
def test_a_modeled_number_is_labelled_at_every_width(width: int) -> None:
    scene = Scene(
        snapshot=waiting(), selected=12, record=transition(STEPS[12]), parent=transition(STEPS[9])
    )
    lines = [text.plain for text in Profile().draw(scene, width, 30)]
    time_line = next(text for text in lines if "Time us" in text)
    assert "modeled" in time_line or "~364" in time_line


# -- diff ---------------------------------------------------------------------------------------

SOURCES = st.lists(
    st.sampled_from(["", "x = 1", "    y = tl.load(p)", "\ttab", "z", "a\x0cb", "é漢"]), max_size=12
)


@given(SOURCES, SOURCES, st.booleans())
def test_a_comparison_leaves_no_line_out(old: list[str], new: list[str], end: bool) -> None:
    before, after = "\n".join(old) + "\n" * end, "\n".join(new) + "\n"
    rows = compare(before, after).rows
    left = [row.left.number for row in rows if row.left]
    right = [row.right.number for row in rows if row.right]
    assert left == list(range(1, len(left) + 1))
    assert right == list(range(1, len(right) + 1))
    assert len(right) == after.count("\n")


@given(SOURCES, SOURCES)
def test_a_patch_turns_one_side_into_the_other(
    tmp_path_factory: pytest.TempPathFactory, old: list[str], new: list[str]
) -> None:
    before, after = "\n".join(old), "\n".join(new)
    text = patch(before, after, "a/kernel.py", "b/kernel.py")
    if not text:
        assert before == after
        return
    folder = tmp_path_factory.mktemp("patch")
    (folder / "kernel.py").write_text(before)
    subprocess.run(
        ["git", "apply", "--unidiff-zero", "--whitespace=nowarn", "-"],
        input=text.encode(), cwd=folder, check=True,
    )  # fmt: skip
    result = folder / "kernel.py"
    assert (result.read_text() if result.exists() else "") == after


def test_edited_lines_stand_beside_each_other_with_their_words_marked() -> None:
    rows = compare("BLOCK = 1024\nkeep\n", "BLOCK = 8192\nkeep\n").rows
    assert rows[0].left is not None
    assert [rows[0].left.text[a:b] for a, b in rows[0].left.words] == ["1024"]


def test_folding_keeps_three_lines_around_a_change_and_counts_the_rest() -> None:
    lines = [f"line {n}" for n in range(40)]
    changed = [*lines[:20], "other", *lines[21:]]
    rows = folded(compare("\n".join(lines) + "\n", "\n".join(changed) + "\n").rows, 3)
    assert [row.folded for row in rows if row.folded] == [17, 16]
    assert hunk_starts(unified(rows)) == [4]


@pytest.mark.parametrize("width", [40, 76, 113])
def test_a_painted_diff_shows_every_character_of_every_changed_line(width: int) -> None:
    painted = paint(prepare(PARENT_SOURCE, SOURCE, LOOK), LOOK, width, split=False, whole=False)
    assert all(text.cell_length == width for text in painted.lines)
    pieces = [re.match(r" *(\d+|↪) +([+-]) (.*)", text.plain) for text in painted.lines]
    shown = "".join(found[3].replace(" ", "") for found in pieces if found)
    for row in unified(compare(PARENT_SOURCE, SOURCE).rows):
        cell = row.left or row.right
        if row.changed and cell is not None:
            assert cell.text.replace(" ", "") in shown


@pytest.mark.parametrize("width", range(60, 76))
def test_a_long_line_is_never_broken_within_a_name(width: int) -> None:
    line = "    tl.store(out_row + cols, y.to(out_ptr.dtype.element_ty), mask=held_cols < N)"
    painted = paint(prepare("", f"{line}\n", LOOK), LOOK, width, split=False, whole=True)
    names = {name for text in painted.lines for name in re.findall(r"[a-z]\w+", text.plain)}
    assert names == set(re.findall(r"[a-z]\w+", line))


def test_both_sides_of_a_split_diff_fill_their_columns() -> None:
    painted = paint(prepare(PARENT_SOURCE, SOURCE, LOOK), LOOK, 113, split=True, whole=True)
    assert all(text.cell_length == 113 for text in painted.lines)
    assert len(painted.hunks) == 2


def test_a_missing_newline_at_the_end_is_a_visible_difference() -> None:
    assert compare("x = 1", "x = 1\n").removed == 1


def test_control_characters_in_code_are_seen_in_the_diff() -> None:
    painted = paint(prepare("", "x = 1\x0c\x1b[2J\n", LOOK), LOOK, 80, split=False, whole=True)
    text = "".join(text.plain for text in painted.lines)
    assert "\x1b" not in text
    assert "␌␛[2J" in text


# -- keys and settings --------------------------------------------------------------------------


def test_no_key_means_two_things_in_one_place() -> None:
    for places in TOGETHER:
        seen: dict[str, str] = {}
        for key in KEYS:
            if places & set(key.places):
                for name in key.keys.split(","):
                    assert seen.setdefault(name, key.id) == key.id


def test_key_ids_are_unique() -> None:
    assert len({key.id for key in KEYS}) == len(KEYS)


def test_accept_and_veto_are_heard_in_the_review_alone() -> None:
    for key in KEYS:
        if key.id in {"accept", "veto"}:
            assert [place.value for place in key.places] == ["review"]


def test_wrong_overrides_are_named_and_the_right_ones_kept() -> None:
    found = keymap({"review": "R,enter", "acept": "A", "pause": "entr", "diff": "z"})
    assert found.overrides == {"review": "R,enter"}
    text = "\n".join(found.faults)
    assert "did you mean 'accept'" in text
    assert "did you mean 'enter'" in text
    assert "'z' is zoom already" in text


def test_settings_survive_their_wrong_entries(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        '[tui]\nrefresh_hz = "fast"\nglyphs = "ascii"\nthem = "x"\n'
        "[keys]\nzoom = 3\n[model]\nx = 1\n"
    )
    settings = load_settings(file)
    assert (settings.tui.glyphs, settings.tui.refresh_hz) == ("ascii", 2.0)
    text = "\n".join(settings.faults)
    assert "tui.refresh_hz" in text
    assert "did you mean 'theme'" in text
    assert "keys.zoom" in text
    assert len(settings.faults) == 3


def test_a_broken_settings_file_is_told_and_not_fatal(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[tui\n")
    assert "not read" in load_settings(file).faults[0]
    assert load_settings(tmp_path / "absent.toml").faults == ()


# -- size, leaving, copying ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "layout"),
    [((120, 36), Layout.WIDE), ((100, 30), Layout.WIDE), ((99, 30), Layout.NARROW),
     ((80, 24), Layout.NARROW), ((71, 24), Layout.SINGLE), ((80, 17), Layout.SINGLE)],
)  # fmt: skip
def test_the_layout_follows_the_size(size: tuple[int, int], layout: Layout) -> None:
    assert layout_of(*size) is layout


def test_a_terminal_that_cannot_show_a_screen_is_refused_with_another_way() -> None:
    fine = {"TERM": "xterm-256color"}
    assert refusal((80, 24), fine) is None
    for size, env in (
        ((39, 24), fine),
        ((80, 9), fine),
        ((80, 24), {"TERM": "dumb"}),
        ((80, 24), {}),
    ):
        reason = refusal(size, env, session="otter")
        assert reason is not None
        assert "workbench watch otter" in reason


def test_leaving_a_running_session_says_how_to_come_back() -> None:
    left = leaving(running())
    assert left.goes_on
    assert left.farewell() == (
        "Session rms-quiet-otter goes on. Come back: workbench attach /tmp/sessions/rms-quiet-otter"
    )
    assert "workbench resume" in leaving(waiting(state=State.LOST)).farewell()


def test_a_long_session_is_drawn_from_what_is_in_view() -> None:
    snapshot = many(5000)
    assert len(best_history(snapshot)) == 5000
    assert funnel(snapshot)[0].count == 5000
