"""What Nsight Compute prints becomes records in known units, and nothing else does."""

from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ncu_kit import LONG, NOT_SELECTED, OF_PEAK, PROFILING, REFUSED, SELECTED, SHORT, SOFTMAX, page

from workbench.kernels.facts_catalogue import CATALOGUE as FACTS
from workbench.measure.ncu.catalogue import CATALOGUE, Group, metric_names
from workbench.measure.ncu.facts import ncu_facts, numbers
from workbench.measure.ncu.parse import parse_raw
from workbench.measure.ncu.records import NcuRecord, NcuState
from workbench.measure.ncu.units import convert, number, scale

RAW = PROFILING + page(("softmax", SOFTMAX))


def only(text):
    (launch,) = parse_raw(text).launches
    return launch


def record(*launches):
    return NcuRecord(state=NcuState.PROFILED, says="", launches=launches)


def test_readings_are_in_the_units_of_the_catalogue_whatever_ncu_scaled():
    launch = only(RAW)
    assert (launch.kernel, launch.grid, launch.block) == ("softmax", (4096, 1, 1), (128, 1, 1))
    read = {name: launch.value(name) for name in launch.readings}
    assert read["duration_us"] == pytest.approx(1162.4)
    assert read["dram_read_bytes"] == pytest.approx(3.22e9)
    assert read["dram_write_bytes"] == pytest.approx(1604.73e6)
    assert read["dram_gbps"] == pytest.approx(4150)
    assert read["shared_bytes"] == pytest.approx(1060)
    assert read["load_sector_use"] == read["store_sector_use"] == 1.0
    assert read["occupancy"] == pytest.approx(0.6122)
    assert read["predicated_on"] == pytest.approx(0.95)
    assert read["l1_hit_pct"] == 0


def test_what_ncu_does_not_have_is_unknown_and_what_we_do_not_know_is_ignored():
    launch = only(RAW)
    assert "tensor_pct" not in launch.readings
    assert launch.value("tensor_pct") is None
    assert set(launch.readings) <= set(CATALOGUE)


def test_a_share_of_sectors_that_nothing_moved_is_unknown():
    none = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct"
    (launch,) = parse_raw(page(("a", {**SOFTMAX, none: ("%", "0")}))).launches
    assert launch.value("load_sector_use") is None
    assert launch.value("store_sector_use") == 1.0
    known = ncu_facts(record(launch), "a")
    assert "profile.load_sector_use" not in known
    assert known["profile.l1_hit_pct"] == 0, "zero hits are a reading"


def test_several_kernels_and_launches_keep_their_order_and_the_longest_speaks():
    short = {**SOFTMAX, "gpu__time_duration.sum": ("usecond", "2.5")}
    launches = parse_raw(page(("a", short), ("b", SOFTMAX), ("a", SOFTMAX), ("a", short))).launches
    assert [one.kernel for one in launches] == ["a", "b", "a", "a"]
    chosen = record(*launches).of("a")
    assert chosen is launches[2]
    assert record(*launches).of("c") is None


def test_a_second_table_has_its_own_columns_and_units():
    nanoseconds = {"gpu__time_duration.sum": ("nsecond", "8,352")}
    launches = parse_raw(page(("a", SOFTMAX)) + "noise\n" + page(("b", nanoseconds))).launches
    assert launches[1].value("duration_us") == pytest.approx(8.352)
    assert launches[1].value("dram_pct") is None


def test_messages_are_kept_apart_from_the_table():
    printed = parse_raw(REFUSED + RAW)
    assert len(printed.launches) == 1
    assert printed.errors()[0].startswith("ERR_NVGPUCTRPERM")
    assert printed.messages[1] == ("PROF", "Connected to process 4711 (/usr/bin/python3.12)")


def test_a_kernel_with_arguments_and_a_namespace_is_told_by_its_name():
    assert only(page(("softmax(float *, int)", SOFTMAX))).kernel == "softmax"


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("1,234,567.5", 1234567.5), ("0", 0.0), ("-3.5", -3.5), ("1.5e+06", 1.5e6), (".5", 0.5),
        ("12 (4; 8)", 12.0), ("n/a", None), ("(!) n/a", None), ("", None), ("nan", None),
        ("inf", None), ("1,23", None), ("1.234,5", None), ("12 KB", None),
    ],
)  # fmt: skip
def test_a_cell_is_a_number_or_unknown(cell, value):
    assert number(cell) == value


@pytest.mark.parametrize(
    ("unit", "means"),
    [
        ("byte", ("B", 1)), ("Kbyte", ("B", 1e3)), ("Mbyte/second", ("B/s", 1e6)),
        ("Kbyte/block", ("B", 1e3)), ("usecond", ("s", 1e-6)), ("ns", ("s", 1e-9)),
        ("ms", ("s", 1e-3)),
        ("%", ("%", 1)), ("inst/cycle", ("", 1)), ("", ("", 1)), ("register/thread", ("", 1)),
        ("byte/us", ("B/s", 1e6)), ("Mbyte2", None),
    ],
)  # fmt: skip
def test_a_unit_has_one_meaning_or_none(unit, means):
    found = scale(unit)
    assert found == means or found == (means[0], pytest.approx(means[1]))


def test_a_value_in_a_unit_that_does_not_fit_is_unknown():
    assert convert(5.0, "byte", "us") is None
    assert convert(5.0, "usecond", "%") is None
    assert convert(5.0, "parsec7", "") is None
    assert only(page(("k", {"gpu__time_duration.sum": ("byte", "5")}))).readings == {}


def test_stall_shares_are_of_the_warps_whole_time_and_not_selected_is_no_wait():
    known = numbers(only(RAW))
    assert known["stall"] == "long_scoreboard"
    assert known["stall_share"] == pytest.approx(21.4 / 25.0)
    assert known["memory_stall_share"] == pytest.approx(22.5 / 25.0)
    busy = {
        LONG: ("inst", "1"),
        SHORT: ("inst", "0"),
        SELECTED: ("inst", "1"),
        NOT_SELECTED: ("inst", "9"),
    }
    assert numbers(only(page(("k", busy))))["stall"] == "long_scoreboard"


def test_what_follows_from_several_readings_needs_all_of_them():
    half = {"l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum": ("byte", "64")}
    assert "local_bytes" not in numbers(only(page(("k", half))))
    both = {**half, "l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum": ("Kbyte", "1")}
    assert numbers(only(page(("k", both))))["local_bytes"] == 1064
    assert numbers(only(RAW))["divergent_pct"] == pytest.approx(5.0)
    assert numbers(only(RAW))["occupancy_limiter"] == "registers"


def test_every_fact_of_a_profile_is_in_the_catalogue_of_facts():
    facts = ncu_facts(record(only(RAW)), "softmax")
    assert facts["profile.limiter_pct"] == pytest.approx(91.62)
    assert set(facts) <= set(FACTS)
    assert ncu_facts(record(only(RAW)), "other") == ncu_facts(None, "softmax") == {}


def test_the_catalogue_asks_for_every_metric_once_and_groups_them_all():
    assert len(set(metric_names())) == len(metric_names())
    assert {spec.group for spec in CATALOGUE.values()} == set(get_args(Group))
    assert f"sm__throughput{OF_PEAK}" in metric_names()


@given(st.text(max_size=400))
def test_any_text_is_read_without_a_fault(text):
    parse_raw(text)
    parse_raw(RAW + text)


@given(st.integers(0, len(RAW)))
def test_a_page_that_breaks_off_gives_no_wrong_number(cut):
    whole = only(RAW)
    for launch in parse_raw(RAW[:cut]).launches:
        assert launch == whole


@given(st.integers(0, 2), st.integers(0, len(SOFTMAX) + 10))
def test_a_row_that_lost_a_cell_is_no_launch(row, cell):
    rows = [line.split('","') for line in page(("softmax", SOFTMAX)).splitlines()]
    del rows[row][cell]
    torn = "\n".join('"' + '","'.join(c.strip('"') for c in cells) + '"' for cells in rows)
    assert parse_raw(torn).launches == ()


@given(st.floats(0, 1e15), st.sampled_from(["", "K", "M", "G", "T"]))
def test_bytes_come_out_as_they_went_in(value, prefix):
    by = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[prefix]
    text = f"{value / by:,.17f}" if value / by < 1e15 else repr(value / by)
    launch = only(page(("k", {"dram__bytes_read.sum": (f"{prefix}byte", text)})))
    assert launch.value("dram_read_bytes") == pytest.approx(value, rel=1e-6, abs=1e-3 * by)


@given(st.permutations(sorted(SOFTMAX)))
def test_the_order_of_columns_means_nothing(order):
    shuffled = only(page(("softmax", SOFTMAX), order=lambda _names: order))
    assert shuffled == only(RAW)


RECORDED = sorted((Path(__file__).parent / "recorded").glob("ncu_*.csv"))


@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_a_page_recorded_on_a_gpu_is_read(file):
    launches = parse_raw(file.read_text(encoding="utf-8")).launches
    assert launches
    for launch in launches:
        assert {"duration_us", "sm_pct", "dram_pct", "l2_pct", "occupancy"} <= set(launch.readings)
        assert 0 < launch.value("duration_us") < 1e7
        percents = [r.value for r in launch.readings.values() if r.unit == "%"]
        assert all(0 <= percent <= 200 for percent in percents)
