"""What `bench roundtrip` prints and keeps: one table of several calls, and what was cut."""

from pathlib import Path

from test_roundtrip import trial
from typed_kit import shell

from workbench.bench import lines
from workbench.bench.roundtrip_notes import outcome
from workbench.cli.bench_roundtrip import _judged
from workbench.measure.records import Kind

__all__ = ["shell"]


def kept(file: Path) -> Path:
    """Trials of two calls on an H200 and one on the CPU path."""
    bare = {"cards": "bare", "reached": False, "device": "NVIDIA H200"}
    for one in (
        trial(device="NVIDIA H200", seconds=41.4, gpu_seconds=12.0),
        trial(**bare, state="cut", ratio=None, kind=None, steps=2, gpu_seconds=0.0, seconds=9.0),
        trial(**bare, ratio=0.06, slower=1, steps=14, gpu_seconds=9.0, seconds=52.0),
        trial(number=2, reached=False, ratio=0.9, kind=Kind.MODELED),
        trial(cards="no risks", state="cut", reached=False, ratio=None, kind=None, seconds=7.0),
    ):
        lines.append(file, one)
    return file


def test_several_calls_make_one_table(shell, tmp_path):
    told = shell("bench", "roundtrip", "--from", str(kept(tmp_path / "f.jsonl")), code=1)
    head = next(line for line in told.splitlines() if line.startswith("workload"))
    rows = told[told.index(head) :].splitlines()[1:5]
    cells = [row.split() for row in rows]
    assert [row[1] for row in cells] == ["whole", "bare", "whole", "no"]
    assert rows[0].split("1 of 1")[1].split()[:5] == ["0", "1.000x", "measured", "6", "12.0"]
    assert "1 trials, 6 edits, 12.0 GPU-s, 41 s" in rows[0]
    assert rows[1].split("0 of 1")[1].split()[:6] == ["0", "0.060x", "measured", "14", "9.0", "52"]
    assert rows[2].split("0 of 1")[1].split()[:3] == ["0", "0.900x", "modeled"]
    assert rows[3].endswith("1"), "one was cut"
    assert "1 cut before a verdict" in told


def test_a_call_begins_after_what_its_file_has_a_verdict_on(tmp_path):
    file = kept(tmp_path / "f.jsonl")
    assert _judged(file) == {
        ("gemm", "whole", "steps", 1),
        ("gemm", "whole", "steps", 2),
        ("gemm", "bare", "steps", 1),
    }
    assert _judged(tmp_path / "new.jsonl") == _judged(None) == frozenset()


def test_a_table_of_no_cards_is_refused(shell):
    told = shell.refused("bench", "roundtrip", "x", "--cards", "drafts", "--no-whole")
    assert "there are no cards to try" in told
    assert "say which, with --without" in told


RECORDED = Path(__file__).parent / "recorded"


def told_of(shell, file, code=0):
    told = shell("bench", "roundtrip", "--from", str(file), code=code).splitlines()
    return [line[2:] for line in told if line.startswith("- ")]


def test_an_ablation_says_itself_what_its_numbers_do_not_show(shell):
    notes = told_of(shell, RECORDED / "ablation_h200.jsonl")
    said = "\n".join(notes)
    assert "one try of each row" in said
    assert "bare: edits and their values alone" in said
    assert "went the way of the lineage that they were lifted from (conv2d, fmha, gdn, gemm" in said
    assert "no time: gdn bare, gdn no conditions met a limit" in said
    assert "not shown: pairs of conv2d no conditions, top_k_unsorted no conditions show" in said
    assert "judged once, its costs in each row: fmha whole and no conditions; gdn bare" in said


def test_a_note_stands_only_where_it_is_about_something(shell, tmp_path):
    file = tmp_path / "f.jsonl"
    for number in (1, 2):
        lines.append(file, trial(number=number))
    notes = told_of(shell, file)
    assert [line.partition(":")[0] for line in notes] == ["edits"]


def test_an_interval_decides_whether_a_kernel_is_called_slower():
    slower = trial(reached=False, slower=1, why="0.376x [0.373, 0.379], 99 %: slower")
    assert outcome(slower) == "slower"
    crossing = trial(reached=False, slower=1, why="0.979x [0.954, 1.010], 99 %: no gain")
    assert outcome(crossing) == "not shown"
    assert outcome(trial(reached=False, state="limit", slower=1)) == "no time"
    assert outcome(trial(reached=False, state="limit", wrong=1)) == "wrong"
    assert outcome(trial(why="0.995x [0.991, 1.001]")) == "reached"
