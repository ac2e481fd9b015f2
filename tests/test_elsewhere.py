"""Sessions that are not from here: another machine's, another person's, a wrong folder's."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest
from engine_parts import new_session
from msgspec import structs
from session_kit import stepped

from workbench.engine import devices
from workbench.engine.create import request_run
from workbench.engine.devices import here
from workbench.engine.planning import plan_next
from workbench.engine.serve import serve_session
from workbench.engine.sessions import find_session, list_sessions
from workbench.errors import WorkbenchError
from workbench.measure.gpus import Gpu
from workbench.session.records import Budget, SessionSettings
from workbench.session.store import SessionStore

H200, A100 = "NVIDIA H200", "NVIDIA A100"
OVERRIDES = (1, 2)
"""Numbers of the rights by which root reads what it may not: CAP_DAC_OVERRIDE, _READ_SEARCH."""


def gpu(uuid: str, name: str, **more: int) -> Gpu:
    return Gpu(
        index=0,
        uuid=uuid,
        name=name,
        cc=90,
        memory_bytes=1 << 37,
        driver="580",
        utilization=0,
        processes=more.get("processes", 0),
    )


def timed_on(folder: Path, *indices: int) -> SessionSettings:
    """Settings of a session that was timed on H200s of these numbers."""
    known = new_session(folder).settings()
    several = indices if len(indices) > 1 else ()
    return structs.replace(known, device=H200, device_index=indices[0], device_indices=several)


@pytest.mark.parametrize("others", [[], [gpu("a", A100)]])
def test_times_of_another_gpu_never_go_into_a_session(tmp_path, monkeypatch, others):
    monkeypatch.setattr(devices, "list_gpus", lambda: others)
    store = new_session(tmp_path / "gelu-1")
    store.save_settings(structs.replace(store.settings(), device=H200, device_index=0))
    events = store.state / "events.jsonl"
    doors = (
        lambda: serve_session(store.folder),
        lambda: request_run(store.folder, mode=None, budget=Budget(steps=9)),
    )
    for door in doors:
        with pytest.raises(WorkbenchError, match="timed on NVIDIA H200, and there is none here"):
            door()
    assert not events.exists(), "a run that cannot begin leaves no word"
    assert SessionStore.open(store.folder).settings().budget == Budget()


@pytest.mark.parametrize(
    ("was", "there", "now"),
    [
        ((1,), [gpu("a", A100), gpu("b", H200)], (1,)),
        ((0,), [gpu("a", A100), gpu("b", H200, processes=1), gpu("c", H200)], (2,)),
        ((0, 1), [gpu("a", A100), gpu("b", H200)], (1,)),
        # One that is gone stays named, so that the run says that it works without it.
        ((0, 1, 5), [gpu("a", H200), gpu("b", H200)], (0, 1, 5)),
        ((0, 1), [gpu("a", A100), gpu("b", A100), gpu("c", H200)], (2,)),
    ],
)
def test_a_session_goes_on_on_gpus_of_its_model_whatever_their_numbers(
    tmp_path, monkeypatch, was, there, now
):
    monkeypatch.setattr(devices, "list_gpus", lambda: there)
    found = here(timed_on(tmp_path / "gelu-1", *was), tmp_path, todo="")
    assert (found.device, found.device_index) == (H200, now[0])
    assert found.device_indices == (now if len(now) > 1 else ())


def test_a_session_of_the_cpu_is_at_home_everywhere(tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "list_gpus", lambda: [gpu("a", A100)])
    settings = new_session(tmp_path / "gelu-1").settings()
    assert here(settings, tmp_path, todo="") == settings


def test_the_next_step_is_not_planned_for_a_gpu_that_is_not_here(tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "list_gpus", list)
    store = stepped(tmp_path)
    store.save_settings(structs.replace(store.settings(), device=H200, device_index=0))
    with pytest.raises(WorkbenchError, match="none here") as told:
        plan_next(store.folder)
    assert "workbench verify" in told.value.todo


def powerless() -> None:
    """Give up what lets root read everything, in the process that is about to begin."""
    libc = ctypes.CDLL(None)
    for right in OVERRIDES:
        libc.prctl(24, right, 0, 0, 0)


def test_a_session_that_one_may_not_read_hides_no_other(tmp_path):
    for name in ("mine-1", "theirs-1"):
        new_session(tmp_path / name)
    closed = tmp_path / "theirs-1"
    closed.chmod(0)
    if os.getuid() == 0:
        os.chown(closed, 4242, 4242)

    def told(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "workbench.cli.main", *words, "--sessions", str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=powerless,
        )

    try:
        listed, meant, asked = told("sessions"), told("status"), told("status", "theirs-1")
    finally:
        closed.chmod(0o700)
    assert listed.returncode == 0, listed.stderr
    rows = listed.stdout.splitlines()
    assert any(row.startswith("mine-1") for row in rows)
    assert any(row.startswith("theirs-1") and "permission denied" in row for row in rows)
    assert "mine-1" in meant.stdout.splitlines()[0], "whose it is not is never the newest"
    assert asked.returncode == 2
    assert "where: " in asked.stderr
    assert "ask its owner for `workbench export theirs-1 FILE`" in asked.stderr


def test_a_file_in_place_of_the_folder_of_sessions_is_told(tmp_path):
    file = tmp_path / "kernel.py"
    file.touch()
    for door in (list_sessions, lambda folder: find_session("", folder)):
        with pytest.raises(WorkbenchError, match="the folder of sessions is a file"):
            door(file)
