"""Whatever a candidate is or does: a verdict in time, no process, no file, no change left behind.

A short round; `workbench bench fuzz --minutes N` goes on for longer, and `WORKBENCH_FUZZ` sets how
many damaged files this one tries.
"""

import os
import subprocess
import sys

import pytest

from workbench.bench.fuzz import Fuzz
from workbench.bench.fuzz_plants import PAYLOADS, planted, plants
from workbench.bench.fuzz_texts import DAMAGES, RIGHT, hostile

DAMAGED = int(os.environ.get("WORKBENCH_FUZZ", "60"))
IN_THE_CHECK = (
    "writes wherever it can",
    "closes its own pipes",
    "kills everybody",
    "kills its group",
    "floods its outputs",
    "raises what cannot be told",
    "raises half a character",
    "replaces builtins",
    "answers for the worker",
    "fills the disk",
    "fills shared memory",
    "kills its parent",
    "floods its outputs for ever",
    "holds itself",
    "nests deeply",
    "returns terabytes that are not there",
    "forks and both answer",
    "hides its state",
)
IN_THE_COMPILER = (
    "leaves with 0",
    "starts a daemon",
    "stops itself",
    "stops its parent",
    "forks",
    "litters",
    "fills TMPDIR",
)
IN_THE_INSPECTION = (
    "writes wherever it can",
    "kills its parent",
    "stops its parent",
    "starts threads that spin",
    "is deaf and spins",
    "answers for the worker",
)


@pytest.fixture(scope="module")
def fuzz():
    with Fuzz(1, call_seconds=2.0) as made:
        yield made


def told(tried):
    print(
        f"\n{len(tried)} tried:",
        *(f"{t.seconds:6.2f} s {t.name}: {t.said}" for t in tried),
        sep="\n",
    )
    return [(one.name, one.said, one.wrong) for one in tried if one.wrong]


def test_damaged_files_always_get_a_verdict(fuzz):
    tried = [fuzz.damaged() for _ in range(DAMAGED)]
    assert told(tried) == []
    assert {one.name for one in tried} <= set(DAMAGES)


def test_what_is_planted_in_host_code_is_never_accepted(fuzz):
    tried = [fuzz.planted(name, source) for name, source in plants(fuzz.rng)]
    assert told(tried) == []


def test_a_file_with_nothing_planted_is_accepted(fuzz):
    name, source = planted("nothing", "tolist")
    honest = source.replace(PAYLOADS["tolist"], "x.shape")
    assert fuzz.planted(name, honest).said.startswith("accepted")


@pytest.mark.parametrize("name", IN_THE_CHECK)
def test_past_the_policy_the_check_survives(fuzz, name):
    tried = fuzz.run(name)
    assert told([tried]) == []


@pytest.mark.parametrize("name", IN_THE_COMPILER)
def test_past_the_policy_the_compiler_survives(fuzz, name):
    tried = fuzz.compiled(name)
    assert told([tried]) == []


@pytest.mark.parametrize("name", IN_THE_INSPECTION)
def test_a_hostile_problem_is_refused_or_inspected(fuzz, name):
    tried = fuzz.inspected(name)
    assert told([tried]) == []


def test_what_is_no_file_of_its_kind_is_told_at_once(fuzz):
    tried = list(fuzz.all_read())
    assert told(tried) == []
    assert len(tried) >= 150
    refused = [one for one in tried if one.said.startswith(("refused", "failed"))]
    assert len(refused) > 100


def test_a_file_that_is_read_with_a_fault_of_ours_is_noticed(fuzz, monkeypatch):
    def faulty(_path):
        raise RecursionError

    monkeypatch.setattr("workbench.bench.fuzz.load_problem", faulty)
    tried = list(fuzz.all_read("sidecar: a "))
    assert tried
    assert all("RecursionError" in one.wrong[0] for one in tried)


def test_every_name_that_is_tried_here_is_one():
    assert {*IN_THE_CHECK, *IN_THE_COMPILER, *IN_THE_INSPECTION} <= set(hostile())


@pytest.mark.parametrize(
    "content",
    [b"", b"\x7fELF\0\0", RIGHT.encode("utf-16"), b"(" * 100_000, b"# x\n" * (1 << 20)],
    ids=["empty", "binary", "utf-16", "deep", "huge"],
)
def test_the_command_refuses_what_is_no_program_without_a_traceback(tmp_path, content):
    file = tmp_path / "candidate.py"
    file.write_bytes(content)
    words = ("gate", str(file), "--problem", "softmax", "--device", "cpu")
    done = subprocess.run(
        [sys.executable, "-m", "workbench.cli.main", *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "rejected at policy" in done.stdout
    assert "Traceback" not in done.stderr
