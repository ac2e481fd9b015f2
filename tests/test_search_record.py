"""`bench search --record` keeps a stream of candidates, rung by rung, within its time."""

import subprocess
import sys
from pathlib import Path

import pytest

from workbench.bench.search_record import RecordAsk, record
from workbench.bench.search_records import BASE, Looked, read
from workbench.bench.search_stream import streams
from workbench.engine.devices import choose_places
from workbench.measure.gpus import list_gpus
from workbench.measure.records import Kind


def recorded(file: Path, device: str, seconds: float, count: int = 2) -> tuple[list[Looked], str]:
    """What one call keeps, and what it tells."""
    said: list[str] = []
    ask = RecordAsk(problems=("gelu",), count=count, seconds=seconds, file=file)
    return list(record(ask, choose_places(device, ""), said.append)), "\n".join(said)


def test_without_a_gpu_a_stream_is_recorded_as_modeled_and_gone_on_with(tmp_path: Path) -> None:
    """No rung that needs a GPU is there, and what is kept is not looked at again."""
    file = tmp_path / "stream.jsonl"
    found, _ = recorded(file, "cpu", seconds=900)
    assert read(file) == found
    rungs = [(one.candidate == BASE, one.rung) for one in found]
    assert rungs.count((False, "static")) == 1
    assert set(rungs) <= {(base, rung) for base in (True, False) for rung in ("static", "smoke")}
    assert all(one.kind is Kind.MODELED and not one.runs for one in found)
    assert all(one.gpu_seconds == 0 and one.wall_seconds > 0 for one in found)
    assert all(one.work and one.modeled_us for one in found if one.passed and one.rung == "smoke")
    again, _ = recorded(file, "cpu", seconds=900)
    assert again == []


def test_a_recording_without_time_keeps_nothing_and_says_so(tmp_path: Path) -> None:
    """A limit that no look fits into is no fault."""
    file = tmp_path / "stream.jsonl"
    found, said = recorded(file, "cpu", seconds=0)
    assert found == []
    assert "gelu: no time left" in said
    assert not file.exists()


@pytest.mark.gpu
def test_on_a_gpu_every_rung_is_measured_with_its_cost(tmp_path: Path) -> None:
    """Pairs with the seed at each timed rung, and two runs at the top one."""
    assert list_gpus()
    found, said = recorded(tmp_path / "stream.jsonl", "auto", seconds=120, count=4)
    by_rung = {rung: [o for o in found if o.rung == rung] for rung in ("smoke", "bench", "profile")}
    for rung, pairs in (("smoke", 14), ("bench", 28), ("profile", 14)):
        passed = [one for one in by_rung[rung] if one.passed]
        assert passed, said
        for one in passed:
            assert one.kind is Kind.MEASURED
            assert {"candidate", "parent"} <= set(one.runs[0].us)
            assert 10 <= len(one.runs[0].us["candidate"]) <= pairs
            assert sum(run.gpu_seconds for run in one.runs) <= one.gpu_seconds <= one.wall_seconds
            assert 0 < one.pairs_seconds < sum(run.gpu_seconds for run in one.runs)
    top = by_rung["profile"][0]
    assert [run.run for run in top.runs] == ["first", "second"]
    assert top.sanitizer_seconds > 0
    assert top.counters_seconds > 0
    assert "clean" in top.says
    assert streams(found)[0].kind is Kind.MEASURED


def test_a_killed_recorder_loses_no_look_that_it_told_of(tmp_path: Path) -> None:
    """And the next one goes on from there, with the next problem too."""
    file = tmp_path / "stream.jsonl"
    words = ["bench", "search", "--record", "--keep", str(file), "--device", "cpu", "--count", "2"]
    running = subprocess.Popen(
        [sys.executable, "-m", "workbench.cli.main", *words, "gelu"],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stderr is not None
    for line in running.stderr:
        if "static passed" in line and file.exists() and file.stat().st_size:
            break
    running.kill()
    running.wait()
    running.stderr.close()
    kept = read(file)
    assert kept
    found, _ = recorded(file, "cpu", seconds=900)
    rows = [(one.candidate, one.rung) for one in read(file)]
    assert rows == [(one.candidate, one.rung) for one in [*kept, *found]]
    assert len(rows) == len(set(rows)) == 4
