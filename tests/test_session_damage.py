"""A damaged repository: what is whole is read, what can be put back is, and the rest is named."""

import os
import subprocess
import threading
from pathlib import Path

import pytest
from session_kit import PROBLEM, git, kernel, seeded, stepped, transition, write_object

from workbench.engine.moving import read_history
from workbench.errors import WorkbenchError
from workbench.session.bundle import export_bundle, import_bundle
from workbench.session.check import check_session
from workbench.session.moves import Move
from workbench.session.objects import commit
from workbench.session.records import Answer, Cost, Decision
from workbench.session.spends import Spend
from workbench.session.store import SessionStore

DAMAGE = {
    "a truncated object": lambda path: os.truncate(path, 10),
    "an empty object": lambda path: os.truncate(path, 0),
    "noise for an object": lambda path: path.write_bytes(b"noise" * 9),
    "a missing object": lambda path: path.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("which", ["main", "main^{tree}", "main:transition.toml"])
def test_damaged_objects_are_one_clear_error(tmp_path: Path, damage: str, which: str) -> None:
    store = seeded(tmp_path)
    id_ = git(store.folder, "rev-parse", which).strip()
    path = store.folder / ".git/objects" / id_[:2] / id_[2:]
    path.chmod(0o644)
    DAMAGE[damage](path)
    assert check_session(store) != ()
    with pytest.raises(WorkbenchError, match="history is damaged") as told:
        store.record_of(0)
    assert str(store.folder) in told.value.where
    assert "fsck" in told.value.todo


@pytest.mark.parametrize("content", ["", "nonsense\n", "0" * 40 + "\n", "1" * 40 + "\n"])
def test_a_damaged_reference_is_one_clear_error(tmp_path: Path, content: str) -> None:
    store = seeded(tmp_path)
    (store.folder / ".git/refs/attempts/0000").write_text(content)
    with pytest.raises(WorkbenchError, match=r"damaged|no version v0"):
        store.transition(0)
    assert check_session(store) != ()


def test_a_commit_that_is_no_transition_is_named(tmp_path: Path) -> None:
    store = seeded(tmp_path)
    node = commit(
        git(store.folder, "rev-parse", "main^{tree}").strip(), [],
        "a <a@b> 1 +0000", "a <a@b> 1 +0000", "by hand\n",
    )  # fmt: skip
    write_object(store.folder, "commit", node.data)
    git(store.folder, "update-ref", "refs/attempts/0007", node.id)
    seen = store.overview()
    assert [version.number for version in seen.versions] == [0, 1]
    assert [(one.ref, one.damaged) for one in seen.unread] == [("refs/attempts/0007", False)]
    assert "its trailer 'Decision' is missing" in seen.unread[0].says
    assert store.next_number() == 8


def test_names_in_our_folders_that_are_not_numbers_are_ignored(tmp_path: Path) -> None:
    store = seeded(tmp_path)
    for name in ("refs/attempts/mine", "refs/attempts/00001", "refs/tags/v1", "refs/heads/mine"):
        git(store.folder, "update-ref", name, "main")
    assert [version.number for version in store.summaries()] == [0, 1]
    assert store.next_number() == 2


def test_locks_left_by_a_killed_git_are_removed_by_the_next_owner(tmp_path: Path) -> None:
    store = seeded(tmp_path)
    locks = [".git/refs/heads/main.lock", ".git/packed-refs.lock", ".git/refs/attempts/0002.lock"]
    for name in locks:
        (store.folder / name).write_text("")
    with pytest.raises(WorkbenchError, match="another git command is writing"):
        store.record(transition(2, 0), kernel(2))
    assert len(store.recover()) == 3
    store.record(transition(2, 0), kernel(2))
    assert store.overview().main == 2


def test_a_lock_of_a_git_command_that_still_works_is_not_taken_from_it(tmp_path: Path) -> None:
    store = seeded(tmp_path)
    lock = store.folder / ".git/packed-refs.lock"
    lock.write_text("")
    # A person's own command, at work: it waits for what it shall pack.
    packing = ["git", "pack-objects", "--stdout"]
    with subprocess.Popen(
        packing, cwd=store.folder, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as git_at_work:
        waited = threading.Timer(0.3, git_at_work.stdin.close)
        waited.start()
        (done,) = store.recover()
        # It was waited for.
        assert git_at_work.poll() is not None
        waited.join()
    assert done == "removed packed-refs.lock, left by a git command that was killed"


@pytest.mark.parametrize("done", [1, 2, 3])
def test_a_transaction_that_was_cut_short_is_finished(tmp_path: Path, done: int) -> None:
    store = seeded(tmp_path)
    pending = store.commit_of(1)
    decided = store.decide(1, Decision(answer=Answer.ACCEPTED, by="person"), best=True)
    # What a power cut after the first, second or third of its moves would have left.
    git(store.folder, "update-ref", "refs/pending/0001", pending)
    if done < 3:
        git(store.folder, "update-ref", "-d", "refs/attempts/0001")
    if done < 2:
        git(store.folder, "update-ref", "refs/heads/best", "refs/attempts/0000")
    seen = SessionStore.open(store.folder).overview()
    assert (seen.main, seen.versions[1].commit) == (1, decided)
    assert store.recover()
    assert store.commit_of(1) == decided
    assert check_session(store) == ()
    assert store.recover() == ()


def test_a_session_whose_folder_went_away_is_not_called_damaged(tmp_path: Path) -> None:
    store = seeded(tmp_path)
    store.folder.rename(tmp_path / "there")
    with pytest.raises(WorkbenchError, match="folder is gone"):
        store.source(0)
    assert not check_session(SessionStore.open(tmp_path / "there"))


# One thing that cannot be read hides nothing else


def by_hand(folder: Path) -> str:
    """A commit of somebody's own."""
    tree = git(folder, "rev-parse", "main^{tree}").strip()
    who = "a <a@b> 1 +0000"
    node = commit(tree, [], who, who, "by hand\n")
    write_object(folder, "commit", node.data)
    return node.id


def lose(folder: Path, name: str) -> None:
    """Take an object away."""
    id_ = git(folder, "rev-parse", name).strip()
    (folder / ".git/objects" / id_[:2] / id_[2:]).unlink()


def undone(store: SessionStore) -> SessionStore:
    """v1 taken back; v2 was refused, v3 waits."""
    store.move_main(Move(kind="undo", before=1, to=0, best=0, undone=(1,), reason="slow"))
    return store


MOVES = {
    "a commit by hand": lambda folder: git(folder, "update-ref", MOVE, by_hand(folder)),
    "a file": lambda folder: git(folder, "update-ref", MOVE, f"{main(folder)}:kernel.py"),
    "a commit that is gone": lambda folder: (folder / ".git" / MOVE).write_text("1" * 40 + "\n"),
}
MOVE = "refs/moves/0002"


def main(folder: Path) -> str:
    return git(folder, "rev-parse", "main").strip()


@pytest.mark.parametrize("named", MOVES)
def test_a_move_that_cannot_be_read_hides_no_version_and_no_other_move(
    tmp_path: Path, named: str
) -> None:
    store = undone(stepped(tmp_path))
    MOVES[named](store.folder)
    seen = store.overview()
    assert [version.number for version in seen.versions] == [0, 1, 2, 3]
    assert seen.undone == {1}
    assert [one.ref for one in seen.unread] == [MOVE]
    assert store.transition(1).decision.reason.endswith("slow")
    assert any(fault.where in {MOVE, "repository"} for fault in check_session(store))


@pytest.mark.parametrize("damage", ["noise for an object", "a missing object"])
@pytest.mark.parametrize("part", ["", "^{tree}", ":transition.toml"])
def test_a_refused_version_that_is_damaged_hides_no_other(
    tmp_path: Path, damage: str, part: str
) -> None:
    store = stepped(tmp_path)
    id_ = git(store.folder, "rev-parse", f"refs/attempts/0002{part}").strip()
    path = store.folder / ".git/objects" / id_[:2] / id_[2:]
    path.chmod(0o644)
    DAMAGE[damage](path)
    history = read_history(store)
    assert [t.number for t in history.transitions] == [0, 1, 3]
    assert [says.partition(" ")[0] for says in history.unread] == ["refs/attempts/0002"]
    assert history.next_number == 4
    assert store.source(1) == kernel(1)
    left_out = export_bundle(store, tmp_path / "s.bundle")
    assert [says.partition(":")[0] for says in left_out] == ["refs/attempts/0002"]
    again = import_bundle(tmp_path / "s.bundle", tmp_path / "there")
    assert [t.number for t in read_history(again).transitions] == [0, 1, 3]
    assert again.next_number() == 4


def test_a_number_that_somebody_has_taken_is_given_to_no_other(tmp_path: Path) -> None:
    store = stepped(tmp_path)
    git(store.folder, "update-ref", "refs/attempts/0009", by_hand(store.folder))
    history = read_history(store)
    assert history.next_number == store.next_number() == 10


@pytest.mark.parametrize("lost", ["refs/attempts/0000", "refs/attempts/0000:transition.toml"])
def test_a_session_whose_accepted_line_is_damaged_is_read_and_not_gone_on_with(
    tmp_path: Path, lost: str
) -> None:
    store = stepped(tmp_path)
    lose(store.folder, lost)
    assert {v.number for v in store.summaries()} >= {1, 2, 3}
    with pytest.raises(WorkbenchError, match="looked at and not gone on with: v0") as told:
        read_history(store)
    assert "bundle" in told.value.todo


def test_a_move_that_is_lost_is_not_guessed_at(tmp_path: Path) -> None:
    store = undone(stepped(tmp_path))
    lose(store.folder, "refs/moves/0001")
    assert len(store.summaries()) == 4
    with pytest.raises(WorkbenchError, match=r"refs/moves/0001, a move of main") as told:
        read_history(store)
    assert "git update-ref -d refs/moves/0001" in told.value.todo


# What can be saved goes out whole


def lived(folder: Path) -> SessionStore:
    """As `stepped`, with v4 accepted after v1, and v1's successor taken back before that."""
    store = stepped(folder)
    store.decide(3, Decision(answer=Answer.ACCEPTED, by="person"), best=True)
    store.record_spend(Spend(purpose="thrown away", version=3, cost=Cost(wall_seconds=2.0)))
    store.move_main(Move(kind="undo", before=3, to=1, best=1, undone=(3,), reason="slow"))
    store.record(transition(4, 1), kernel(4), best=True)
    return store


EARLY = {
    "refs/attempts/0000": [1, 2, 3, 4],
    "refs/attempts/0001": [0, 2, 3, 4],
    "refs/attempts/0001^{tree}": [0, 2, 3, 4],
    "refs/attempts/0001:kernel.py": [0, 2, 3, 4],
    "refs/attempts/0003:transition.toml": [0, 1, 2, 4],
    "refs/attempts/0004": [0, 1, 2, 3],
}


@pytest.mark.parametrize("lost", EARLY)
def test_an_early_loss_takes_no_later_version_from_a_bundle(tmp_path: Path, lost: str) -> None:
    store = lived(tmp_path)
    was = {number: store.record_of(number) for number in range(5)}
    id_ = git(store.folder, "rev-parse", lost).strip()
    lose(store.folder, lost)
    told = export_bundle(store, tmp_path / "s.bundle")
    ref, _, part = lost.replace("^{tree}", ":session.toml, problem.py").partition(":")
    assert any(says.startswith(f"{ref}: {part or 'its commit'}") for says in told)
    again = import_bundle(tmp_path / "s.bundle", tmp_path / "there")
    assert check_session(again) == ()
    assert {number: again.record_of(number) for number in EARLY[lost]} == {
        number: was[number] for number in EARLY[lost]
    }
    number = int(ref[-1])
    with pytest.raises(WorkbenchError, match=rf"v{number} has lost"):
        again.record_of(number)
    assert again.next_number() == 5
    if not part:
        assert [one.ref for one in again.overview().unread] == [ref]
        assert id_ in git(again.folder, "log", "-1", "--format=%B", ref)
    # It goes on travelling, and says no more and no less.
    export_bundle(again, tmp_path / "t.bundle")
    third = import_bundle(tmp_path / "t.bundle", tmp_path / "elsewhere")
    assert third.overview() == again.overview()


def test_a_file_that_the_folder_still_has_is_lost_nowhere(tmp_path: Path) -> None:
    store = lived(tmp_path)
    was = store.record_of(4)
    for name in ("problem.py", "kernel.py"):
        lose(store.folder, f"refs/attempts/0004:{name}")
    assert SessionStore.open(store.folder).problem().source == PROBLEM
    assert export_bundle(store, tmp_path / "s.bundle") == ()
    again = import_bundle(tmp_path / "s.bundle", tmp_path / "there")
    assert again.record_of(4) == was
    done = store.recover()
    assert [says for says in done if "found in the folder" in says] == [
        "put back kernel.py of main, found in the folder",
        "put back problem.py of main, found in the folder",
    ]
    assert store.record_of(4) == was
    assert check_session(store) == ()


def test_a_problem_that_is_nowhere_any_more_is_asked_for(tmp_path: Path) -> None:
    store = lived(tmp_path)
    lose(store.folder, "main:problem.py")
    kept = (store.folder / "problem.py").read_text()
    (store.folder / "problem.py").unlink()
    with pytest.raises(WorkbenchError, match=r"no version of it has problem\.py") as told:
        export_bundle(store, tmp_path / "s.bundle")
    assert "put the problem.py that it was started with into this folder" in told.value.todo
    assert not list(tmp_path.glob(".s.bundle*"))
    (store.folder / "problem.py").write_text(kept)
    assert export_bundle(store, tmp_path / "s.bundle") == ()


# What git still holds is put back


@pytest.mark.parametrize("content", ["", "8c2a469cee2e310fbb53"])
@pytest.mark.parametrize(
    "ref", ["refs/attempts/0000", "refs/attempts/0002", "refs/pending/0003", "refs/heads/main"]
)
def test_a_torn_reference_is_found_again_by_what_git_holds(
    tmp_path: Path, ref: str, content: str
) -> None:
    store = stepped(tmp_path)
    was = git(store.folder, "rev-parse", ref).strip()
    (store.folder / ".git" / ref).write_text(content)
    assert ref in {one.ref for one in store.overview().unread}
    done = store.recover()
    assert git(store.folder, "rev-parse", ref).strip() == was
    assert any(ref in says for says in done)
    # What stood there is kept.
    (kept,) = (store.state / "damaged").iterdir()
    assert kept.read_text() == content
    assert store.recover() == ()
    assert check_session(store) == ()


def test_a_torn_reference_that_was_packed_is_read_from_the_pack(tmp_path: Path) -> None:
    store = stepped(tmp_path)
    was = store.commit_of(2)
    store.tidy()
    (store.folder / ".git/refs/attempts/0002").write_text("")
    store.recover()
    assert store.commit_of(2) == was


def test_a_deleted_version_on_the_line_comes_back_and_one_beside_it_stays_away(
    tmp_path: Path,
) -> None:
    store = stepped(tmp_path)
    was = store.commit_of(0)
    for number in (0, 2):
        git(store.folder, "update-ref", "-d", f"refs/attempts/{number:04d}")
    export_bundle(store, tmp_path / "s.bundle")
    again = import_bundle(tmp_path / "s.bundle", tmp_path / "there")
    assert again.commit_of(0) == was
    store.recover()
    assert [v.number for v in store.summaries()] == [0, 1, 3]
    assert store.commit_of(0) == was


@pytest.mark.parametrize("moved", [False, True])
def test_deleted_branches_come_back_to_where_they_were(tmp_path: Path, moved: bool) -> None:
    store = stepped(tmp_path)
    if moved:
        undone(store)
    was = {name: git(store.folder, "rev-parse", name) for name in ("main", "best")}
    for name in was:
        git(store.folder, "update-ref", "-d", f"refs/heads/{name}")
    assert store.overview().main is None
    assert len(store.recover()) == 2
    assert {name: git(store.folder, "rev-parse", name) for name in was} == was
    assert store.recover() == ()


def test_a_session_that_lost_its_start_is_read_from_a_version_and_mended(tmp_path: Path) -> None:
    store = stepped(tmp_path)
    was = git(store.folder, "rev-parse", "refs/session/start")
    git(store.folder, "update-ref", "-d", "refs/session/start")
    again = SessionStore.open(store.folder)
    assert again.settings().name == "softmax-1"
    assert any("refs/session/start" in says for says in again.recover())
    assert git(store.folder, "rev-parse", "refs/session/start") == was


def test_a_small_file_of_git_that_is_damaged_is_named_with_its_remedy(tmp_path: Path) -> None:
    store = stepped(tmp_path)
    for name, remedy in (("HEAD", "echo 'ref: refs/heads/main'"), ("config", "move .git/config")):
        path = store.folder / ".git" / name
        kept = path.read_text()
        path.write_text("[nonsense")
        with pytest.raises(WorkbenchError, match="damaged") as told:
            SessionStore.open(store.folder)
        assert remedy in told.value.todo
        path.write_text(kept)
    (store.folder / ".git/config").unlink()
    assert SessionStore.open(store.folder).overview().main == 1
