"""`bench noise`: decisions whose truth is planted, kept, and counted again from the file."""

import contextlib
import itertools
import random
import re
from collections import Counter
from pathlib import Path

import pytest
from gate_kit import workshop
from msgspec import structs
from timing_parts import Match, ScriptedSide, together
from typer.testing import CliRunner

from workbench.bench.noise import Bench
from workbench.bench.noise_kernels import NOISE_KERNELS
from workbench.bench.noise_record import (
    Decision,
    Head,
    Missing,
    NoiseFile,
    Stream,
    read_lines,
)
from workbench.bench.noise_sides import TABLES, Doors
from workbench.bench.noise_table import tables
from workbench.bench.rates import rate
from workbench.cli.main import app
from workbench.engine.devices import Place
from workbench.errors import WorkbenchError
from workbench.gate.correctness.protocol import OpenReference
from workbench.gate.records import Finding
from workbench.gate.timing.sides import SidesSpec, open_sides
from workbench.gate.timing.turns import SideFault
from workbench.measure.pairs import Answer, PairRule

__all__ = ["workshop"]

PLACE = Place(device="NVIDIA H200", index=0, target="sm90")
HEAD = Head(date="2026-11-29", gpu="NVIDIA H200", versions={"torch": "2.11"}, rule=PairRule())
QUIET = 0.004


class Dialled(Match):
    """Sides that take `us` and, for every step of `EXTRA`, so many percent more.

    Every process has a part of its own in its times, of a standard deviation of `apart`.
    """

    def __init__(self, percent_per_step: float, *, us: float = 100.0, apart: float = 0.0):
        super().__init__(new=lambda _run, _turn: 100.0)
        self.percent = percent_per_step
        self.us = us
        self.apart = apart
        self.opened = []

    @contextlib.contextmanager
    def open(self, spec, _workshop):
        self.opened.append(spec)
        self.held.append("open")
        sides = tuple(
            ScriptedSide(name, self._times(name, source, spec.seed.hex()), 0)
            for name, source in spec.candidates
        )
        yield together(sides, lambda _names: None)

    def _times(self, name, source, process):
        steps = int(re.search(r"EXTRA = (\d+)", source)[1])
        rng = random.Random(f"{name} {process}")
        us = self.us * (1 + self.percent / 100 * steps) * rng.gauss(1.0, self.apart)
        return lambda _run, _turn: us * rng.gauss(1.0, QUIET)


RECORDED = Path(__file__).parent / "recorded"


def measured(dialled, kernels, *, seconds=60.0):
    """All lines, on a clock that goes on by a second at every look."""
    ticks = itertools.count()
    doors = Doors(dialled._hold, dialled.open, lambda: float(next(ticks)))
    return list(Bench(PLACE, None, seconds, doors).lines(kernels))


BY_NAME = {kernel.name: kernel for kernel in NOISE_KERNELS}
KERNEL = BY_NAME["softmax"]


@pytest.fixture(scope="module")
def lines():
    return [HEAD, *measured(Dialled(0.024), (KERNEL,), seconds=90.0)]


def extras(spec):
    return [int(re.search(r"EXTRA = (\d+)", source)[1]) for _, source in spec.candidates]


def test_the_dial_is_turned_until_gains_are_as_planted():
    dialled = Dialled(0.1)
    measured(dialled, (KERNEL,), seconds=1.0)
    tables = [extras(spec) for spec in dialled.opened[TABLES : 2 * TABLES]]
    full = max(tables, key=len)
    assert full[:2] == [0, 0]
    assert full[2:] == pytest.approx([10, 20, 50], rel=0.2)
    assert sorted(map(len, tables)) == [3] * (TABLES - 1) + [5]
    assert len({source for spec in dialled.opened[:TABLES] for _, source in spec.candidates}) == 5


def test_workers_are_started_beside_others_and_timed_alone():
    dialled = Dialled(0.024)
    measured(dialled, (KERNEL,), seconds=1.0)
    first = dialled.held[: 2 * TABLES + 1]
    assert (first.count("shared"), first.count("open"), first[-1]) == (TABLES, TABLES, "alone")


def test_equals_are_decided_in_several_processes_and_planted_gains_are_found(lines):
    single = [line for line in lines if isinstance(line, Decision) and line.how == "one run"]
    equal = [one for one in single if one.planted == 0]
    assert Counter(one.table for one in equal) == dict.fromkeys(range(TABLES), 13)
    assert {one.answer for one in equal} == {Answer.NO_GAIN}
    assert len([one for one in single if one.planted == 2]) == 13 * TABLES
    assert all(one.faster for one in single if one.planted == 5)
    assert all(len(one.candidate_us) == len(one.incumbent_us) == one.pairs for one in single)
    whole = {one.planted: one for one in lines if isinstance(one, Decision) and one.how == "whole"}
    assert (whole[0.0].faster, whole[2.0].faster) == (False, True)


def test_the_gains_that_the_goal_asks_for_are_tried_though_time_is_short():
    dialled = Dialled(0.024)
    found = measured(dialled, (KERNEL, structs.replace(KERNEL, name="other")), seconds=1.0)
    tried = Counter(
        line.kernel
        for line in found
        if isinstance(line, Decision) and (line.planted, line.how) == (2.0, "one run")
    )
    # As many as one kernel gives: 13 at each table.
    assert tried == {"softmax": 52, "other": 52}


def test_a_gain_below_what_processes_differ_by_is_not_planted():
    found = measured(Dialled(0.024, us=6.0), (KERNEL,), seconds=1.0)
    told = [line.says for line in found if isinstance(line, Missing)]
    assert "2 % cannot be planted: it is 0.12 us, and two processes may differ by 0.3 us" in told
    assert {line.planted for line in found if isinstance(line, Stream | Decision)} == {0.0}


def test_a_step_that_is_too_large_is_not_called_a_gain_of_two_percent():
    found = measured(Dialled(9.0), (KERNEL,), seconds=1.0)
    told = [line.says for line in found if isinstance(line, Missing)]
    assert any(says.startswith("2 % cannot be planted: its nearest step made") for says in told)
    assert 2.0 not in {line.planted for line in found if isinstance(line, Decision)}


def test_tables_are_the_same_from_the_kept_file(lines, tmp_path):
    path = tmp_path / "noise.jsonl"
    file = NoiseFile(path)
    for line in lines:
        file.add(line)
    kept = read_lines(path)
    assert kept == lines
    assert tables(kept) == tables(lines)
    found = tables(lines)
    assert found.met
    assert found.rate(0.0).times == 0
    two = next(row for row in found.rows if row.planted == 2)
    assert two.processes == TABLES
    assert two.true_low < two.true < two.true_high
    assert two.true == pytest.approx(1.02, abs=0.003)
    assert found.rate(2.0, resampled=True).share > 0.99


def test_what_processes_differ_by_is_told_beside_the_noise_of_pairs():
    quiet = tables([HEAD, *measured(Dialled(0.024), (KERNEL,), seconds=1.0)])
    row = next(row for row in quiet.rows if row.planted == 0)
    assert row.apart < 3 * row.pairs_alone
    assert quiet.apart.met
    assert (quiet.apart.processes, quiet.apart.allowed_us) == (TABLES, 0.3)
    lines = [HEAD, *measured(Dialled(0.024, apart=0.01), (KERNEL,), seconds=1.0)]
    loud = tables(lines)
    row = next(row for row in loud.rows if row.planted == 0)
    assert row.apart > 5 * row.pairs_alone
    assert loud.apart.most_us > loud.apart.beyond_us > 0.3
    assert not loud.apart.met
    assert not loud.met


def test_the_recorded_file_of_one_process_pair_each_still_reads():
    found = tables(read_lines(RECORDED / "noise_h200_first.jsonl"))
    assert (found.apart.kernel, found.apart.processes, found.apart.met) == ("add", 6, True)
    assert found.apart.most_us == pytest.approx(0.157, abs=0.002)
    assert found.rate(0.0).words().startswith("0 of 312")
    assert [(row.kernel, row.planted) for row in found.rows if not row.as_planted] == [
        ("add", 1.0),
        ("add", 2.0),
        ("add", 5.0),
        ("rms", 1.0),
    ]
    add = next(row for row in found.schemes if (row.kernel, row.planted) == ("add", 0.0))
    assert add.above_threshold > 0.8, "one process pair's own part, which the pool would hide"


@pytest.mark.parametrize("name", ["noise_h200", "noise_h200_second"])
def test_decisions_recorded_under_the_present_rule_meet_both_goals(name):
    found = tables(read_lines(RECORDED / f"{name}.jsonl"))
    assert found.rate(0.0).words().startswith("0 of 156")
    assert found.rate(2.0).words().startswith("80 of 80")
    assert found.apart.processes == 12
    assert found.apart.beyond_us < found.apart.allowed_us
    assert found.met


def test_a_cut_last_line_is_left_out_and_another_is_refused(tmp_path):
    path = tmp_path / "noise.jsonl"
    file = NoiseFile(path)
    file.add(HEAD)
    path.write_bytes(path.read_bytes() + b'{"type": "str')
    assert read_lines(path) == [HEAD]
    path.write_bytes(b"{}\n" + path.read_bytes())
    with pytest.raises(WorkbenchError, match="line 1"):
        read_lines(path)


def test_a_kernel_that_fails_is_named_and_the_others_go_on():
    class Failing(Dialled):
        def _times(self, name, source, process):
            if "matvec" in source:
                raise SideFault(name, Finding(code="correctness.raised", says="boom"))
            return super()._times(name, source, process)

    found = measured(Failing(0.024), (BY_NAME["matvec"], KERNEL), seconds=1.0)
    assert [line.kernel for line in found if isinstance(line, Missing)] == ["matvec"]
    assert any(isinstance(line, Stream) and line.kernel == "softmax" for line in found)


# -- rates ----------------------------------------------------------------------------------------


def test_rates_say_what_they_show_and_not_more():
    none = rate(0, 300)
    assert none.high == pytest.approx(1 - 0.05 ** (1 / 300))
    assert "at most 0.99 %" in none.words()
    assert rate(300, 300).low == pytest.approx(0.05 ** (1 / 300))
    # Clopper and Pearson's own table: 3 of 10 at 95 %.
    some = rate(3, 10)
    assert (some.low, some.high) == (
        pytest.approx(0.0667, abs=1e-4),
        pytest.approx(0.6525, abs=1e-4),
    )
    assert rate(0, 0).words() == "not tried"
    assert rate(2999, 3000).words() == "2999 of 3000 (99.8 to 100 %)"


def stream(planted, *, drift=0.0, count=1000):
    rng = random.Random(planted)
    level, old, new = 0.0, [], []
    for _ in range(count):
        level = 0.999 * level + rng.gauss(0, drift)
        old.append(100 * (1 + planted / 100) * (1 + level + rng.gauss(0, QUIET)))
        new.append(100 * (1 + level + rng.gauss(0, QUIET)))
    return Stream(
        kernel="k", planted=planted, incumbent_us=tuple(old), candidate_us=tuple(new), seconds=1.0
    )


def test_fixed_schemes_accept_equals_where_clocks_drift():
    rows = tables([HEAD, stream(0.0, drift=0.003)]).schemes
    assert len(rows) == 6
    assert [row.kernel for row in rows] == ["", "k"] * 3
    assert all(0.2 < row.above_one < 0.8 for row in rows)
    steady = tables([HEAD, stream(5.0)]).schemes
    assert all(row.above_threshold == 1.0 for row in steady)
    assert [row.seconds for row in steady] == pytest.approx([0.1, 0.1, 0.1, 0.1, 0.15, 0.15])


# -- the kernels and the command ------------------------------------------------------------------


def test_every_kernel_is_right_with_more_work(workshop):
    for kernel in NOISE_KERNELS:
        problem = kernel.problem()
        opening = OpenReference(
            source=problem.source,
            values=problem.tiny.values,
            build_seed=1,
            precision=problem.precision,
            tolerance={},
            selections=(),
        )
        spec = SidesSpec(
            problem=opening,
            candidates=(("plus 3", kernel.candidate(3, "k")),),
            with_reference=False,
            target="sm90",
            seed=bytes(8),
        )
        with open_sides(spec, workshop) as sides:
            (side,) = sides.sides
            sides.fresh([side.name])
            side.turn(bare=False)
            assert not side.check(closely=True), kernel.name
            assert not side.check(closely=False), kernel.name


def test_the_command_prints_tables_from_a_file_and_says_what_is_missed(lines, tmp_path):
    path = tmp_path / "noise.jsonl"
    file = NoiseFile(path)
    for line in (*lines, Missing(kernel="dot", says="boom")):
        file.add(line)
    done = CliRunner().invoke(app, ["bench", "noise", "--from", str(path)])
    assert done.exit_code == 0, done.output
    assert re.search(r"softmax +100\.\d +2 % +1\.0\d+ \[", done.output)
    assert re.search(r"equals called faster, one run each: 0 of \d+ \(at most .*\) ok", done.output)
    assert "not measured, dot: boom" in done.output
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    assert CliRunner().invoke(app, ["bench", "noise", "--from", str(path)]).exit_code == 1


def test_without_a_gpu_the_command_says_what_else_it_can_do(tmp_path):
    words = ["bench", "noise", "--device", "cpu", "--keep", str(tmp_path / "n.jsonl")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code != 0
    assert isinstance(done.exception, WorkbenchError)
    assert "--from" in done.exception.todo
