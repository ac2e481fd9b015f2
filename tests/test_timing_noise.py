"""`bench noise`: decisions whose truth is planted, kept, and counted again from the file."""

import contextlib
import itertools
import random
import re

import pytest
from timing_parts import Match, ScriptedSide, together
from typer.testing import CliRunner

from workbench.bench.noise import Bench, Doors
from workbench.bench.noise_kernels import NOISE_KERNELS
from workbench.bench.noise_record import (
    Decision,
    Head,
    Missing,
    NoiseFile,
    Stream,
    read_lines,
)
from workbench.bench.noise_table import rate, tables
from workbench.cli.main import app
from workbench.engine.devices import Place
from workbench.errors import WorkbenchError
from workbench.gate.correctness.protocol import OpenReference
from workbench.gate.records import Finding
from workbench.gate.timing.sides import SidesSpec, open_sides
from workbench.gate.timing.stage import JOB_MODULES
from workbench.gate.timing.turns import SideFault
from workbench.isolation.workshop import Workshop
from workbench.measure.pairs import Answer, PairRule

PLACE = Place(device="NVIDIA H200", index=0, target="sm90")
HEAD = Head(date="2026-11-29", gpu="NVIDIA H200", versions={"torch": "2.11"}, rule=PairRule())
QUIET = 0.004


class Dialled(Match):
    """Sides that take 100 us and, for every step of `EXTRA`, so many percent more."""

    def __init__(self, percent_per_step: float):
        super().__init__(new=lambda _run, _turn: 100.0)
        self.percent = percent_per_step
        self.opened = []

    @contextlib.contextmanager
    def open(self, spec, _workshop):
        self.opened.append(spec)
        number = len(self.opened)
        sides = tuple(
            ScriptedSide(name, self._times(name, source, number), 0)
            for name, source in spec.candidates
        )
        yield together(sides, lambda _names: None)

    def _times(self, name, source, number):
        steps = int(re.search(r"EXTRA = (\d+)", source)[1])
        us = 100.0 * (1 + self.percent / 100 * steps)
        rng = random.Random(f"{name} {number}")
        return lambda _run, _turn: us * rng.gauss(1.0, QUIET)


def measured(dialled, kernels, *, seconds=60.0):
    """All lines, on a clock that goes on by a second at every look."""
    ticks = itertools.count()
    doors = Doors(dialled._hold, dialled.open, lambda: float(next(ticks)))
    return list(Bench(PLACE, None, seconds, doors).lines(kernels))


KERNEL = NOISE_KERNELS[1]


@pytest.fixture(scope="module")
def lines():
    return [HEAD, *measured(Dialled(0.1), (KERNEL,), seconds=90.0)]


def test_the_dial_is_turned_until_gains_are_as_planted():
    dialled = Dialled(0.1)
    measured(dialled, (KERNEL,), seconds=1.0)
    last = dialled.opened[1]
    extras = [int(re.search(r"EXTRA = (\d+)", source)[1]) for _, source in last.candidates]
    assert extras[:2] == [0, 0]
    assert extras[2:] == pytest.approx([10, 20, 50], rel=0.2)
    assert len({source for _, source in last.candidates}) == 5


def test_equals_are_decided_often_and_planted_gains_are_found(lines):
    single = [line for line in lines if isinstance(line, Decision) and line.how == "one run"]
    equal = [one for one in single if one.planted == 0]
    assert len(equal) >= 52
    assert {one.answer for one in equal} == {Answer.NO_GAIN}
    assert all(one.faster for one in single if one.planted == 5)
    assert all(len(one.candidate_us) == len(one.incumbent_us) == one.pairs for one in single)
    whole = {one.planted: one for one in lines if isinstance(one, Decision) and one.how == "whole"}
    assert (whole[0.0].faster, whole[2.0].faster) == (False, True)


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
    assert two.true_low < 1.02 < two.true_high
    assert two.true == pytest.approx(1.02, abs=0.003)
    assert found.rate(2.0, resampled=True).share > 0.99


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
        def _times(self, name, source, number):
            if "matvec" in source:
                raise SideFault(name, Finding(code="correctness.raised", says="boom"))
            return super()._times(name, source, number)

    found = measured(Failing(0.1), (NOISE_KERNELS[3], KERNEL), seconds=1.0)
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
    assert len(rows) == 3
    assert all(0.2 < row.above_one < 0.8 for row in rows)
    steady = tables([HEAD, stream(5.0)]).schemes
    assert all(row.above_threshold == 1.0 for row in steady)
    assert [row.seconds for row in steady] == pytest.approx([0.1, 0.1, 0.15])


# -- the kernels and the command ------------------------------------------------------------------


def test_every_kernel_is_right_with_more_work():
    with Workshop(preload=JOB_MODULES) as shop:
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
            with open_sides(spec, shop) as sides:
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
    assert "dot is missing: boom" in done.output
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    assert CliRunner().invoke(app, ["bench", "noise", "--from", str(path)]).exit_code == 1


def test_without_a_gpu_the_command_says_what_else_it_can_do(tmp_path):
    words = ["bench", "noise", "--device", "cpu", "--keep", str(tmp_path / "n.jsonl")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code != 0
    assert isinstance(done.exception, WorkbenchError)
    assert "--from" in done.exception.todo
