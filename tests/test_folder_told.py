"""Where a session's folder cannot show `main`, or its packs are damaged, a person is told."""

import subprocess
import sys
from pathlib import Path

import pytest
from engine_parts import ScriptedWorkplace, new_session
from session_kit import git

from workbench.engine import events as ev
from workbench.engine.moving import move_alone
from workbench.engine.serve import serve_session
from workbench.engine.sessions import list_sessions
from workbench.engine.wishes import Branch, Undo
from workbench.errors import WorkbenchError
from workbench.session.reader import SessionReader


def limited(blocks: int, *words: str, sessions: Path) -> subprocess.CompletedProcess[str]:
    """A command that may make no file larger than so many KiB, as on a disk that is full."""
    script = f'ulimit -f {blocks}; exec "$@"'
    command = [sys.executable, "-m", "workbench.cli.main", *words, "--sessions", str(sessions)]
    return subprocess.run(
        ["bash", "-c", script, "bash", *command], capture_output=True, text=True, check=False
    )


AT = "2026-01-01T00:00:00+00:00"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = new_session(tmp_path / "softmax-1").folder
    serve_session(path, open_workplace=lambda *given: ScriptedWorkplace(*given, steps=2))
    return path


def test_a_move_past_a_persons_edit_says_that_the_edit_stayed(folder):
    (folder / "kernel.py").write_text("# mine\n")
    says = move_alone(folder, Undo(number=2), AT)
    assert says.endswith("the session's folder: edited by hand, left as they are: kernel.py")
    assert (folder / "kernel.py").read_text() == "# mine\n"


def test_a_run_tells_once_that_an_edit_stayed(folder):
    (folder / "kernel.py").write_text("# mine\n")
    told: list[str] = []

    def listen(event: ev.AnyEvent) -> None:
        if isinstance(event, ev.Note):
            told.append(event.says)

    serve_session(
        folder,
        open_workplace=lambda *given: ScriptedWorkplace(*given, steps=4),
        listen=listen,
    )
    assert SessionReader(folder).next_number() == 5
    assert told.count("the session's folder: edited by hand, left as they are: kernel.py") == 1


def test_a_lock_that_a_killed_git_left_on_the_index_keeps_no_file_old(folder):
    (folder / ".git" / "index.lock").touch()
    move_alone(folder, Undo(number=2), AT)
    assert (folder / "kernel.py").read_text() == SessionReader(folder).source(1)
    assert git(folder, "status", "--short") == ""
    move_alone(folder, Branch(number=2), AT)
    assert git(folder, "status", "--short") == ""


def test_a_pack_that_lost_its_index_is_damage_with_its_remedy(folder):
    git(folder, "gc", "--quiet")
    (index,) = (folder / ".git/objects/pack").glob("*.idx")
    index.unlink()
    with pytest.raises(WorkbenchError, match="none of the objects") as told:
        SessionReader(folder)
    command = told.value.todo.split("`")[1]
    assert [row.state.partition(":")[0] for row in list_sessions(folder.parent)] == ["unreadable"]
    git(folder, *command.split()[1:])
    assert SessionReader(folder).next_number() == 3


def test_a_torn_pack_is_damage_and_no_other_repository(folder):
    git(folder, "gc", "--quiet")
    (pack,) = (folder / ".git/objects/pack").glob("*.pack")
    pack.chmod(0o644)
    with pack.open("r+b") as file:
        file.truncate(100)
    with pytest.raises(WorkbenchError, match="history is damaged"):
        SessionReader(folder)


def test_an_export_that_finds_no_room_leaves_nothing_and_blames_no_session(tmp_path, folder):
    (tmp_path / "out").mkdir()
    bundle = tmp_path / "out" / "one.bundle"
    done = limited(1, "export", "softmax-1", str(bundle), sessions=folder.parent)
    assert done.returncode == 2
    assert "the disk is full" in done.stderr
    assert list(bundle.parent.iterdir()) == []
    assert limited(9999, "export", "softmax-1", str(bundle), sessions=folder.parent).returncode == 0
    there = tmp_path / "there"
    done = limited(1, "import", str(bundle), sessions=there)
    assert (done.returncode, "the disk is full" in done.stderr) == (2, True)
    assert list(there.iterdir()) == []


def test_a_move_that_git_holds_is_told_as_done_where_the_journal_is_full(folder):
    done = limited(1, "undo", "softmax-1", sessions=folder.parent)
    assert done.returncode == 0
    assert "undo v2: main goes back to v1" in done.stdout
    assert "its line in the journal is missing" in done.stdout
    assert SessionReader(folder).overview().main == 1
