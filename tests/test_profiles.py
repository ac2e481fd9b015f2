"""Two versions' profiles stand side by side; kinds never meet, and unknown stays unknown."""

import json

import pytest
from msgspec import structs
from ncu_kit import SOFTMAX, page
from session_kit import settings, transition
from typer.testing import CliRunner

from workbench.cli.main import app
from workbench.cli.report import card_text
from workbench.gate.profiles import compare
from workbench.kernels.records import Launch, StaticProfile
from workbench.measure.ncu.parse import parse_raw
from workbench.measure.ncu.records import NcuRecord, NcuState
from workbench.measure.ncu.states import without_profile
from workbench.measure.records import Kind, Time
from workbench.session.store import SessionStore
from workbench.tui.dialogs.deltas import delta_lines
from workbench.tui.look import Look
from workbench.tui.metrics import metrics
from workbench.tui.panes.profile import limit_lines

STATIC = StaticProfile(
    registers=48, spill_store_bytes=0, spill_load_bytes=0, stack_bytes=0, shared_bytes=1060,
    threads=128, programs_per_sm=5, occupancy=0.3125, limiter="registers", code_bytes=160,
    mix={"LDG.128": 2, "total": 10},
)  # fmt: skip
LAUNCH = Launch(
    kernel="softmax", grid=(4096, 1, 1), arguments={}, constexprs={}, num_warps=4, num_stages=3,
    num_ctas=1, line=1, cubin_sha256="00", static=STATIC, compile_seconds=0.0,
)  # fmt: skip
LOOK = Look()
MODELED = Time(kind=Kind.MODELED, microseconds=100.0, device="sm90", detail={"dram": 90.0})
MEASURED = Time(kind=Kind.MEASURED, microseconds=80.0, low=79.0, high=81.0, samples=60)


def profiled(kernel, **changed):
    metrics = {**SOFTMAX, **changed}
    return NcuRecord(
        state=NcuState.PROFILED, says="1 launch profiled", version="2025.3.1.0",
        launches=parse_raw(page((kernel, metrics))).launches, report="profiles/0000.ncu-rep",
    )  # fmt: skip


def gate(**changes):
    report = structs.replace(transition(0, None).gate, launches=(LAUNCH,), traces=(), time=MODELED)
    return structs.replace(report, **changes)


def rows(a, b):
    return {(r.kernel, r.name, r.kind): r for r in compare(a, b)}


def test_a_measured_and_a_modeled_time_are_two_rows():
    found = rows(gate(), gate(time=MEASURED))
    modeled, measured = found["", "time", Kind.MODELED], found["", "time", Kind.MEASURED]
    assert (modeled.a, modeled.b, modeled.delta) == (100.0, None, None)
    assert (measured.a, measured.b) == (None, 80.0)


def test_counters_stand_side_by_side_with_their_change():
    kernel = LAUNCH.kernel
    slower = profiled(kernel, **{"gpu__time_duration.sum": ("usecond", "1,200")})
    found = rows(gate(ncu=profiled(kernel)), gate(ncu=slower))
    row = found[kernel, "duration under the profiler", Kind.MEASURED]
    assert (row.a, row.b, row.better) == (pytest.approx(1162.4), 1200.0, -1)
    assert row.delta == pytest.approx(37.6)


def test_counters_that_were_refused_are_unknown_not_zero():
    kernel = LAUNCH.kernel
    found = rows(gate(ncu=profiled(kernel)), gate(ncu=without_profile(NcuState.REFUSED, "")))
    row = found[kernel, "DRAM throughput", Kind.MEASURED]
    assert (row.b, row.delta) == (None, None)


def test_a_kernel_that_only_one_has_is_unknown_in_the_other():
    other = structs.replace(LAUNCH, kernel="other")
    found = rows(gate(), gate(launches=(LAUNCH, other)))
    assert found["other", "registers", Kind.EXACT].a is None


def test_an_opcode_that_a_known_mix_does_not_name_is_zero():
    static = structs.replace(LAUNCH.static, mix={"LDG.128": 4, "total": 9})
    vector = structs.replace(LAUNCH, static=static)
    plain = structs.replace(LAUNCH, static=structs.replace(static, mix={"total": 7}))
    unread = structs.replace(LAUNCH, static=structs.replace(static, mix={}))
    key = (vector.kernel, "instructions LDG.128", Kind.EXACT)
    assert rows(gate(launches=(plain,)), gate(launches=(vector,)))[key].a == 0.0
    assert rows(gate(launches=(unread,)), gate(launches=(vector,)))[key].a is None


def test_instructions_stand_by_name_and_their_sum_last():
    mixes = (
        {"IMAD": 1, "LDG.64": 1, "other": 3, "total": 5},
        {"LDG.128": 1, "LDG.64": 1, "total": 2},
    )
    one, two = (
        gate(launches=(structs.replace(LAUNCH, static=structs.replace(STATIC, mix=mix)),))
        for mix in mixes
    )
    names = [r.name for r in compare(one, two) if r.group == "machine code"]
    opcodes = ("IMAD", "LDG.128", "LDG.64", "other")
    assert names == [*(f"instructions {opcode}" for opcode in opcodes), "instructions, all"]


@pytest.fixture
def session(tmp_path):
    store = SessionStore.create(tmp_path / "s", settings("s"), "problem = 1\n")
    kernel = LAUNCH.kernel
    for number, record in enumerate((profiled(kernel), without_profile(NcuState.REFUSED, ""))):
        one = transition(number, None if number == 0 else 0)
        store.record(structs.replace(one, gate=gate(ncu=record)), "kernel = 1\n")
    return tmp_path


def run(session, *words):
    done = CliRunner().invoke(app, [*words, "--session", "s", "--sessions", str(session)])
    assert done.exit_code == 0, done.output
    return done.output


def test_diff_metrics_prints_every_number_with_its_kind(session):
    text = run(session, "diff", "v0", "v1", "--metrics")
    (row,) = [line for line in text.splitlines() if "DRAM throughput" in line]
    assert row.split() == ["DRAM", "throughput", "91.62", "%", "unknown", "measured"]
    found = json.loads(run(session, "diff", "v0", "v1", "--metrics", "--json"))
    assert (found["a"], found["b"]) == (0, 1)
    assert all({"kernel", "name", "a", "b", "delta", "kind"} <= set(m) for m in found["metrics"])


def test_a_card_says_what_holds_the_kernel_back_and_how_the_counters_ended(session):
    text = run(session, "card", "v0")
    assert "dram-bound, measured: profile.dram_pct 91.6%" in text
    assert "profiles/0000.ncu-rep" in text
    refused = run(session, "card", "v1")
    assert "counters-refused" in refused
    assert "NVreg_RestrictProfilingToAdminUsers=0" in refused
    assert "dram-bound, modeled" in refused
    found = json.loads(run(session, "card", "v0", "--json"))
    (limit,) = found["bottlenecks"].values()
    assert (limit["limit"], limit["kind"]) == ("dram-bound", "measured")


def test_a_record_of_counters_survives_git(session):
    one = SessionStore.open(session / "s").transition(0)
    assert one.gate.ncu == profiled(LAUNCH.kernel)
    assert "dram-bound" in card_text(one)


def test_the_pane_shows_counters_as_measured_and_the_limit_with_its_kind():
    own, parent = gate(ncu=profiled("softmax")), gate(ncu=profiled("softmax"))
    found = {row.name: row for row in metrics(own, parent)}
    dram = found["DRAM %"]
    assert (dram.kind, dram.value, dram.parent) == (Kind.MEASURED, pytest.approx(91.62), dram.value)
    assert found["Active warps %"].value == pytest.approx(61.22)
    told = " ".join(line.plain.strip() for line in limit_lines(own, LOOK, 60))
    assert "dram-bound, measured" in told


def test_a_change_that_is_nothing_when_rounded_has_no_sign_and_is_neither_better_nor_worse():
    def row(before, after):
        one, two = (
            structs.replace(
                transition(0, None), gate=gate(time=structs.replace(MODELED, microseconds=us))
            )
            for us in (before, after)
        )
        (told,) = [one for one in delta_lines(one, two, LOOK, 100) if " time, us" in one.plain]
        styles = {str(span.style) for span in told.spans}
        return told.plain, bool(styles & {LOOK.good, LOOK.bad})

    assert "  0.0 %  " in row(298.0, 297.9)[0]
    assert not row(298.0, 297.9)[1]
    plain, coloured = row(111.4, 111.7)
    assert "+0.3 %  " in plain
    assert not coloured
    plain, coloured = row(100.0, 133.0)
    assert "+33.0 % !" in plain
    assert coloured


def test_the_pane_compares_no_counters_of_different_kernels_and_says_why_there_are_none():
    other = structs.replace(LAUNCH, kernel="other")
    own = gate(ncu=profiled("other"), launches=(other,))
    found = {row.name: row for row in metrics(own, gate(ncu=profiled("softmax")))}
    assert found["DRAM %"].parent is None
    refused = gate(ncu=without_profile(NcuState.REFUSED, ""))
    told = " ".join(line.plain.strip() for line in limit_lines(refused, LOOK, 60))
    assert "administrator" in told
    assert "dram-bound, modeled" in told
