"""`bench offline` as a command, on the CPU path, with the smallest problem."""

import json
import subprocess
import sys
from pathlib import Path


def workbench(*arguments, expected=0):
    done = subprocess.run(
        [sys.executable, "-m", "workbench.cli.main", "bench", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == expected, done.stderr[-2000:]
    return done


def test_the_table_says_that_it_is_modeled_and_is_taken_up_again(tmp_path):
    sessions, table = tmp_path / "sessions", tmp_path / "table.json"
    arguments = ["offline", "gelu", "--device", "cpu", "--sessions", sessions]
    first = workbench(*arguments, "--steps", 1, "--keep", tmp_path / "kept")
    head, row, *summary = first.stdout.splitlines()
    assert head.split()[:5] == ["problem", "seed", "best", "eager", "compile"]
    assert row.split()[4] == "-"
    assert any("modeled, no GPU" in line for line in summary)
    assert [file.suffix for file in (tmp_path / "kept").iterdir()] == [".bundle"]

    workbench(*arguments, "--steps", 2, "--json-file", table)
    (found,) = json.loads(table.read_text())
    assert found["kind"] == "modeled"
    assert found["steps"] == 2
    assert found["best"]["microseconds"] <= found["seed"]["microseconds"]
    assert found.get("compiled") is None
    assert [path.name for path in sessions.iterdir()] == ["offline-gelu"]

    refused = workbench(*arguments, "--target", "sm80", expected=2)
    assert "give another --sessions folder" in refused.stderr


def test_a_kept_table_is_printed_again_and_nothing_runs():
    kept = Path(__file__).parent / "recorded" / "offline_h200.json"
    done = workbench("offline", "--from", kept)
    rows = {line.split()[0]: line.split() for line in done.stdout.splitlines()}
    assert rows["rmsnorm"][1:3] == ["1347.7", "927.3"]
    assert rows["rmsnorm"][6] == "1.00x"


def test_a_replay_places_what_sessions_kept_with_and_without_what_they_taught():
    session = Path(__file__).parents[1] / "sessions" / "offline-rmsnorm.bundle"
    (found,) = map(
        json.loads, workbench("offline", "--replay", session, "--json").stdout.split("\n")[:-1]
    )
    assert (found["problem"], found["card"], found["kind"]) == (
        "rmsnorm",
        "loop-to-tile",
        "measured",
    )
    assert found["then"] == 1
    assert found["place"] == 1
    assert found["unseen"] == 1
    assert found["fit"] > 5


def test_a_replay_of_a_folder_without_sessions_says_so(tmp_path):
    refused = workbench("offline", "--replay", tmp_path, expected=2)
    assert "there is no bundle of a session in this folder" in refused.stderr
