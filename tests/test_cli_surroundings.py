"""Commands in rooms that are not as one hopes: no home, no reader, no stderr."""

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from session_kit import stepped

from workbench.cli.progress import Progress
from workbench.cli.report import final_report
from workbench.cli.say import note
from workbench.engine import events as ev
from workbench.engine.client import SessionClient
from workbench.errors import WorkbenchError
from workbench.gate.counters_level import Level, installation, remember, remembered
from workbench.isolation.grants import toolchain
from workbench.paths import config_home, data_home, runtime_home
from workbench.session.journal import Journal

STARTED = ev.RunStarted(pid=1, mode="auto", device="cpu", target="sm90", resumed=False)


def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """No HOME, and a number that no passwd file knows."""
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 424242)


def test_without_a_home_the_variable_is_named(monkeypatch) -> None:
    homeless(monkeypatch)
    for folder, name in ((data_home, "XDG_DATA_HOME"), (config_home, "XDG_CONFIG_HOME")):
        with pytest.raises(WorkbenchError, match="home folder") as told:
            folder()
        assert name in told.value.todo
    assert runtime_home() == Path("/tmp/workbench-424242")


def test_a_named_folder_needs_no_home(monkeypatch, tmp_path) -> None:
    homeless(monkeypatch)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert data_home() == tmp_path / "workbench"


def test_without_a_home_a_worker_still_finds_its_toolchain(monkeypatch, tmp_path) -> None:
    homeless(monkeypatch)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert Path("/usr") in toolchain(os.environ)
    tool = tmp_path / "ncu"
    tool.touch()
    assert str(tmp_path) in installation(tool)
    remember("ncu", "2025.3.1", Level.CALLS)
    assert remembered("ncu", "2025.3.1") is None


@pytest.mark.parametrize("as_json", [True, False])
def test_progress_that_nobody_reads_ends_no_run(monkeypatch, as_json) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as nobody:
        monkeypatch.setattr(sys, "stdout", nobody)
        monkeypatch.setattr(sys, "stderr", nobody)
        progress = Progress(json=as_json)
        progress.show(STARTED)
        progress.show(STARTED)
        monkeypatch.undo()
        # What it could not write is dropped, not kept for its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), writer)


def test_progress_on_a_full_disk_ends_no_run(monkeypatch) -> None:
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stderr", full)
        Progress(json=False).show(STARTED)
        monkeypatch.undo()
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())


def test_notes_never_go_to_stdout(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    note("a note")
    assert capsys.readouterr().out == ""


def test_json_stays_json_where_stderr_is_closed(tmp_path) -> None:
    stepped(tmp_path)
    command = f'"{sys.executable}" -m workbench.cli.main "$@" 2>&-'
    words = ("log", "softmax-1", "nosuch", "--json", "--sessions", str(tmp_path))
    for given in (words[:2] + words[3:], words):
        done = subprocess.run(
            ["sh", "-c", command, "sh", *given], capture_output=True, text=True, check=False
        )
        for line in done.stdout.splitlines():
            assert isinstance(json.loads(line), dict)


def workbench(*words: str, folder: Path) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "workbench.cli.main", *words, "--sessions", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_decision_without_a_version_names_the_one_that_waits(tmp_path) -> None:
    store = stepped(tmp_path)
    for command, tail in (("accept", ""), ("veto", " --reason WHY")):
        done = workbench(command, *(["--reason", "slow"] if tail else []), folder=tmp_path)
        assert done.returncode == 2
        assert f"v3 waits: workbench {command} {store.folder} v3{tail}\n" in done.stderr
    assert "refs/attempts/0003" not in store.git.ref_ids("refs/attempts")


def test_a_run_that_ended_early_is_gone_on_with_by_a_whole_command(tmp_path) -> None:
    store = stepped(tmp_path)
    with Journal(store.state / "events.jsonl") as journal:
        ended = ev.RunEnded(seq=1, how="failed", says="the model did not answer")
        journal.append(lambda _seq: msgspec.json.encode(ended), durable=True)
    told = final_report(SessionClient(store.folder))
    assert f"go on     workbench resume {store.folder} --headless\n" in told
