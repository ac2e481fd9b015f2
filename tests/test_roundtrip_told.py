"""What `bench roundtrip` prints and keeps: one table of several calls, and what was cut."""

from pathlib import Path

from test_roundtrip import trial
from typed_kit import shell

from workbench.bench import lines
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
