"""What can be wrong with the machine under a session: git, the disk, the folder."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from session_kit import PROBLEM, git, new_store, seeded, settings

from workbench.errors import WorkbenchError
from workbench.session.store import SessionStore


def test_git_that_is_not_installed_is_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(WorkbenchError, match="git is not installed") as told:
        new_store(tmp_path)
    assert told.value.todo == "install git 2.34 or newer and try again"


def test_git_that_is_too_old_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = tmp_path / "git"
    old.write_text("#!/bin/sh\necho git version 2.17.1\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(WorkbenchError, match=r"git is too old: git version 2\.17\.1"):
        new_store(tmp_path)


def test_a_ctrl_c_of_the_person_reaches_no_git_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "sessions"
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\nread -r line </proc/$$/stat\necho $line >>{told}\n"
                    f'exec {shutil.which("git")} "$@"\n')  # fmt: skip
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    seeded(tmp_path)
    groups = {int(line.split()[4]) for line in told.read_text().splitlines()}
    assert len(groups) > 1
    assert os.getpgrp() not in groups


def test_folders_that_are_no_session_are_each_told_apart(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    git(tmp_path, "init", "-q", "foreign")
    (tmp_path / "file").write_text("")
    said = {}
    for name in ("none", "file", "empty", "foreign"):
        with pytest.raises(WorkbenchError) as told:
            SessionStore.open(tmp_path / name)
        said[name] = told.value.what
    assert said["none"] == said["file"] == "there is no such session"
    assert said["empty"] == "this is not a session of the workbench: .git is not a folder in it"
    assert said["foreign"].endswith(".git/workbench is not a folder in it")
    (tmp_path / "foreign/.git/workbench").mkdir()
    with pytest.raises(WorkbenchError, match="it has no refs/session/start"):
        SessionStore.open(tmp_path / "foreign")


@pytest.mark.parametrize("there", ["folder", "file", "symlink"])
def test_a_new_session_overwrites_nothing(tmp_path: Path, there: str) -> None:
    path = tmp_path / "softmax-1"
    if there == "folder":
        path.mkdir()
        (path / "mine").write_text("precious")
    elif there == "file":
        path.write_text("precious")
    else:
        path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(WorkbenchError, match="already something with the new session's name"):
        new_store(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["softmax-1"]


def test_a_folder_that_cannot_be_made_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkbenchError, match="the session cannot be created: File exists"):
        SessionStore.create(tmp_path / "file" / "a-1", settings("a-1"), PROBLEM)


ON_A_SMALL_DISK = """
set -e
mount -t tmpfs -o size=900k none {folder}
exec {python} - <<'END'
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from session_kit import kernel, new_store, transition
from workbench.errors import WorkbenchError
from workbench.session.check import check_session
from workbench.session.store import SessionStore
folder = Path({folder!r})
store = new_store(folder)
store.record(transition(0, None), kernel(0))
recorded = 0
try:
    while True:
        store.record(transition(recorded + 1, recorded), kernel(recorded))
        recorded += 1
except WorkbenchError as fault:
    print(fault.what)
again = SessionStore.open(store.folder)
assert len(again.summaries()) == recorded + 1 > 3, recorded
faults = check_session(again)
assert faults == (), faults
(store.folder / "kernel.py").unlink()
{then}
END
"""


def small_disk(tmp_path: Path, then: str) -> str:
    """What a session says on a disk of its own that fills up; skips where none can be mounted."""
    (tmp_path / "disk").mkdir()
    script = ON_A_SMALL_DISK.format(
        folder=str(tmp_path / "disk"), python=sys.executable, tests=str(Path(__file__).parent),
        then=then,
    )  # fmt: skip
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    probe = subprocess.run([*command, f"mount -t tmpfs none {tmp_path}/disk"], check=False)
    if probe.returncode != 0:
        pytest.skip("this machine lets nobody mount a disk in a namespace of their own")
    done = subprocess.run([*command, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_full_disk_refuses_the_step_and_keeps_the_rest(tmp_path: Path) -> None:
    assert small_disk(tmp_path, "") == "the disk is full; the session was not changed\n"


def test_a_full_disk_lets_nobody_take_a_session_and_says_which(tmp_path: Path) -> None:
    said = small_disk(
        tmp_path,
        """
from workbench.session.lock import EngineLock
try:
    with (folder / "fill").open("wb") as fill:
        while True:
            fill.write(b"0" * 512)
            fill.flush()
except OSError:
    pass
try:
    EngineLock(store.state / "engine.lock", session="softmax-1")
except WorkbenchError as fault:
    print(fault)
""",
    )
    assert "the session cannot be locked: No space left on device" in said
    assert "engine.lock" in said
    assert "free some space" in said


def test_a_read_only_disk_can_be_read_and_refuses_a_step(tmp_path: Path) -> None:
    said = small_disk(
        tmp_path,
        """
import subprocess
subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
again = SessionStore.open(store.folder)
assert again.source(0) == kernel(0)
print(again.restore_worktree().says.partition(":")[0])
try:
    again.record(transition(90, 0), kernel(90))
except WorkbenchError as fault:
    print(fault.what)
""",
    )
    assert said.splitlines()[1:] == [
        "the files in the folder could not be updated",
        "the session's folder cannot be written; it was not changed",
    ]
