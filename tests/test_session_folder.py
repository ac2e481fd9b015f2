"""The files that a person sees in a session's folder: `main`'s, and never at the cost of theirs."""

from pathlib import Path

import pytest
from session_kit import git, kernel, new_store, stepped, transition

from workbench.errors import WorkbenchError
from workbench.session.records import Answer
from workbench.session.store import SessionStore


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    """v0 seed, v1 accepted, v2 rejected (from v1), v3 waits (from v1)."""
    return stepped(tmp_path)


def test_the_folder_holds_mains_files_and_is_clean_after_every_step(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    answers = [Answer.ACCEPTED, Answer.ACCEPTED, Answer.REJECTED, Answer.VETOED, Answer.ACCEPTED]
    shown = []
    for number, answer in enumerate(answers):
        store.record(transition(number, 0 if number else None, answer), kernel(number))
        assert not store.worktree.says
        assert git(store.folder, "status", "--porcelain") == ""
        git(store.folder, "diff-index", "--quiet", "HEAD")
        shown.append((store.folder / "kernel.py").read_text())
    assert shown == [kernel(0), kernel(1), kernel(1), kernel(1), kernel(4)]
    assert sorted(path.name for path in store.folder.iterdir()) == [
        ".git", "exchange.jsonl", "kernel.py", "problem.py", "problem.toml", "profile.json",
        "session.toml", "transition.toml",
    ]  # fmt: skip


def test_a_persons_edit_is_never_overwritten(store: SessionStore) -> None:
    edited = store.folder / "kernel.py"
    edited.write_text("my own idea\n")
    (store.folder / "notes.txt").write_text("mine\n")
    store.record(transition(4, 1), kernel(4))
    assert edited.read_text() == "my own idea\n"
    assert (store.folder / "notes.txt").read_text() == "mine\n"
    assert store.worktree.edited == ("kernel.py",)
    assert "edited by hand" in store.worktree.says
    assert store.overview().main == 4
    git(store.folder, "checkout", "kernel.py")
    assert edited.read_text() == kernel(4)
    assert not store.restore_worktree().says


@pytest.mark.parametrize("then", ["keeps it", "takes it back", "deletes it"])
def test_an_edit_that_a_person_staged_is_never_overwritten(store: SessionStore, then: str) -> None:
    edited = store.folder / "kernel.py"
    edited.write_text("my own idea\n")
    git(store.folder, "add", "kernel.py")
    if then == "takes it back":
        edited.write_text(kernel(1))
    elif then == "deletes it":
        edited.unlink()
    here = edited.read_text() if edited.exists() else None
    for number in (4, 5):
        store.record(transition(number, 1), kernel(number))
        assert store.worktree.edited == ("kernel.py",)
        assert (edited.read_text() if edited.exists() else None) == here
        assert git(store.folder, "show", ":kernel.py") == "my own idea\n"
    git(store.folder, "reset", "-q", "--hard")
    assert edited.read_text() == kernel(5)
    assert not store.restore_worktree().says


def test_what_a_person_staged_stays_staged(store: SessionStore) -> None:
    (store.folder / "run.sh").write_text("mine\n")
    (store.folder / "run.sh").chmod(0o755)
    git(store.folder, "add", "run.sh")
    store.record(transition(4, 1), kernel(4))
    assert git(store.folder, "status", "--porcelain") == "A  run.sh\n"
    assert git(store.folder, "ls-files", "--stage", "run.sh").startswith("100755")


def test_a_deleted_file_comes_back(store: SessionStore) -> None:
    (store.folder / "kernel.py").unlink()
    assert store.restore_worktree().written == ("kernel.py",)
    assert git(store.folder, "status", "--porcelain") == ""


@pytest.mark.parametrize(
    "away", [("checkout", "-q", "-b", "mine"), ("checkout", "-q", "--detach", "main~1")]
)
def test_the_folder_is_left_alone_while_it_shows_something_else(
    store: SessionStore, away: tuple[str, ...]
) -> None:
    git(store.folder, *away)
    shown = (store.folder / "kernel.py").read_text()
    store.record(transition(4, 1), kernel(4))
    assert (store.folder / "kernel.py").read_text() == shown
    assert "something else than `main`" in store.worktree.says
    git(store.folder, "checkout", "-q", "main")
    assert (store.folder / "kernel.py").read_text() == kernel(4)
    store.record(transition(5, 4), kernel(5))
    assert not store.worktree.says
    assert (store.folder / "kernel.py").read_text() == kernel(5)


def test_a_commit_made_by_hand_on_main_is_kept_and_said(store: SessionStore) -> None:
    (store.folder / "kernel.py").write_text("by hand\n")
    git(store.folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qam", "by hand")
    mine = git(store.folder, "rev-parse", "main").strip()
    with pytest.raises(WorkbenchError, match="v4 is recorded, but `main` was moved by hand"):
        store.record(transition(4, 1), kernel(4))
    assert git(store.folder, "rev-parse", "main").strip() == mine
    assert store.source(4) == kernel(4)
    assert store.overview().main is None
    store.record(transition(5, 1, Answer.REJECTED), kernel(5))
    git(store.folder, "branch", "mine", "main")
    git(store.folder, "reset", "-q", "--keep", store.commit_of(4))
    assert store.overview().main == 4
