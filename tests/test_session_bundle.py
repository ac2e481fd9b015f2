"""A session as one file: it comes back whole, and a stranger's file brings nothing else with it."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from session_kit import kernel, new_store, settings, transition

from workbench.errors import WorkbenchError
from workbench.session import bundle, toml, trailers
from workbench.session.bundle import export_bundle, import_bundle
from workbench.session.check import check_session
from workbench.session.objects import GitObject, blob, commit, tree
from workbench.session.records import Answer, Decision
from workbench.session.store import SessionStore

WHO = "a <a@b> 1 +0000"


def git(folder: Path, *arguments: str) -> str:
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    made = new_store(tmp_path / "here")
    made.record(transition(0, None), kernel(0))
    made.record(transition(1, 0), kernel(1), best=True, exchange=[{"prompt": "faster?"}])
    made.record(transition(2, 1, Answer.REJECTED), kernel(2))
    made.record_pending(transition(3, 1, Answer.PENDING), kernel(3))
    return made


def test_a_session_comes_back_whole_and_goes_on(store: SessionStore, tmp_path: Path) -> None:
    export_bundle(store, tmp_path / "s.bundle")
    again = import_bundle(tmp_path / "s.bundle", tmp_path / "there")
    assert again.folder == tmp_path / "there" / "softmax-1"
    assert again.overview() == store.overview()
    assert [again.record_of(n) for n in range(4)] == [store.record_of(n) for n in range(4)]
    assert (again.settings(), again.problem()) == (store.settings(), store.problem())
    assert (again.folder / "kernel.py").read_text() == kernel(1)
    assert git(again.folder, "status", "--porcelain") == ""
    again.decide(3, Decision(answer=Answer.ACCEPTED, by="person"))
    again.record(transition(4, 3), kernel(4))
    assert again.overview().line() == (0, 1, 3, 4)
    assert check_session(again) == ()


def test_it_may_get_another_name(store: SessionStore, tmp_path: Path) -> None:
    export_bundle(store, tmp_path / "s.bundle")
    again = import_bundle(tmp_path / "s.bundle", tmp_path / "here", "copy-1")
    assert again.folder.name == again.settings().name == "copy-1"
    assert again.overview() == store.overview()


def test_a_session_whose_seed_still_waits_travels_too(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    store.record_pending(transition(0, None, Answer.PENDING), kernel(0))
    export_bundle(store, tmp_path / "s.bundle")
    again = import_bundle(tmp_path / "s.bundle", tmp_path / "there")
    assert (again.next_number(), again.overview().main) == (1, None)


def test_plain_git_can_read_the_file(store: SessionStore, tmp_path: Path) -> None:
    export_bundle(store, tmp_path / "s.bundle")
    git(tmp_path, "clone", "-q", "s.bundle", "clone")
    assert (tmp_path / "clone" / "kernel.py").read_text() == kernel(1)
    heads = git(tmp_path, "ls-remote", str(tmp_path / "s.bundle"))
    assert sorted(line.split("\t")[1] for line in heads.splitlines()) == [
        "HEAD", "refs/attempts/0000", "refs/attempts/0001", "refs/attempts/0002",
        "refs/heads/best", "refs/heads/main", "refs/pending/0003",
    ]  # fmt: skip


def test_a_persons_own_branches_stay_at_home(store: SessionStore, tmp_path: Path) -> None:
    git(store.folder, "checkout", "-q", "-b", "mine")
    (store.folder / "secret.txt").write_text("secret\n")
    git(store.folder, "add", "secret.txt")
    git(store.folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "mine")
    secret = git(store.folder, "rev-parse", "mine:secret.txt").strip()
    export_bundle(store, tmp_path / "s.bundle")
    again = import_bundle(tmp_path / "s.bundle", tmp_path / "there")
    probe = ["git", "cat-file", "-e", secret]
    assert subprocess.run(probe, cwd=again.folder, capture_output=True, check=False).returncode != 0


def test_a_file_that_is_there_is_not_overwritten(store: SessionStore, tmp_path: Path) -> None:
    file = tmp_path / "s.bundle"
    file.write_text("precious")
    with pytest.raises(WorkbenchError, match="already a file of that name"):
        export_bundle(store, file)
    assert file.read_text() == "precious"
    with pytest.raises(WorkbenchError, match="the bundle cannot be written: No such file"):
        export_bundle(store, tmp_path / "nowhere" / "s.bundle")


def test_a_session_without_a_version_has_nothing_to_export(tmp_path: Path) -> None:
    with pytest.raises(WorkbenchError, match="nothing to export"):
        export_bundle(new_store(tmp_path), tmp_path / "s.bundle")
    assert not (tmp_path / "s.bundle").exists()


def test_what_an_import_that_was_killed_has_left_is_gone_after_a_day(
    store: SessionStore, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    for name, hours in ((".import.0badcafe", 25), (".import.01234567", 1)):
        (there / name / ".git").mkdir(parents=True)
        os.utime(there / name, (time.time() - 3600 * hours,) * 2)
    export_bundle(store, tmp_path / "s.bundle")
    import_bundle(tmp_path / "s.bundle", there)
    assert sorted(path.name for path in there.iterdir()) == [".import.01234567", "softmax-1"]


def test_a_name_that_is_taken_is_refused_and_nothing_changes(
    store: SessionStore, tmp_path: Path
) -> None:
    export_bundle(store, tmp_path / "s.bundle")
    before = store.overview()
    with pytest.raises(WorkbenchError, match="already something with the new session's name"):
        import_bundle(tmp_path / "s.bundle", store.folder.parent)
    with pytest.raises(WorkbenchError, match="cannot be a session's name"):
        import_bundle(tmp_path / "s.bundle", tmp_path, "../evil")
    assert store.overview() == before
    assert [path.name for path in store.folder.parent.iterdir()] == ["softmax-1"]


# Files that are none, or not whole


def header(text: str) -> Callable[[bytes], bytes]:
    return lambda data: text.encode() + data[data.index(b"\nPACK") + 1 :]


SPOILT: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda _: b"", "not a git bundle"),
    "text": (lambda _: b"hello\n", "not a git bundle"),
    "cut in the header": (lambda data: data[:60], "header"),
    "cut in the objects": (lambda data: data[:-400], "index-pack"),
    "a flipped bit": (lambda data: data[:-90] + bytes([data[-90] ^ 1]) + data[-89:], "index-pack"),
    "no references": (header("# v2 git bundle\n\n"), "holds no version"),
    "builds on something": (
        header("# v2 git bundle\n-" + "1" * 40 + " x\n" + "2" * 40 + " refs/heads/main\n\n"),
        "builds on another repository",
    ),
    "sha256": (header("# v3 git bundle\n@object-format=sha256\n\n"), "header"),
    "a filter": (header("# v3 git bundle\n@filter=blob:none\n\n"), "header"),
    "an object that is not in it": (
        header("# v2 git bundle\n" + "2" * 40 + " refs/attempts/0000\n\n"), "",
    ),
    "an endless line": (header("# v2 git bundle\n" + "x" * 9999), "header"),
}  # fmt: skip


@pytest.mark.parametrize("how", SPOILT)
def test_a_spoilt_file_is_one_clear_error_and_leaves_nothing(
    store: SessionStore, tmp_path: Path, how: str
) -> None:
    change, says = SPOILT[how]
    file, there = tmp_path / "s.bundle", tmp_path / "there"
    export_bundle(store, file)
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(WorkbenchError) as told:
        import_bundle(file, there)
    assert says in told.value.what
    assert not there.exists() or list(there.iterdir()) == []


def test_a_file_that_is_not_there_or_too_large_is_said_so(
    store: SessionStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(WorkbenchError, match="there is no such file"):
        import_bundle(tmp_path / "none.bundle", tmp_path / "there")
    export_bundle(store, tmp_path / "s.bundle")
    monkeypatch.setattr(bundle, "BUNDLE_CAP", 100)
    with pytest.raises(WorkbenchError, match="larger than"):
        import_bundle(tmp_path / "s.bundle", tmp_path / "there")


# Files that are bundles, and hold what no session would


def forge(
    folder: Path, files: dict[str, bytes], *, message: str = "", mode: str = "", merge: bool = False
) -> Path:
    """A bundle with one version 0 made of these files, written with plain git."""
    git(folder, "init", "-q", "--initial-branch=main", "forge")
    repository = folder / "forge"
    blobs = {name: blob(data) for name, data in files.items()}
    root = tree({name: item.id for name, item in blobs.items()})
    if mode:
        root = root._replace(
            data=root.data.replace(b"100644 kernel.py\0", mode.encode() + b" kernel.py\0")
        )
    other = commit(root.id, [], WHO, WHO, "other\n")
    node = commit(root.id, [other.id] if merge else [], WHO, WHO, message)
    for item in (*blobs.values(), root, other, node):
        literally(repository, item)
    for ref in ("refs/attempts/0000", "refs/heads/main"):
        git(repository, "update-ref", ref, node.id)
    git(repository, "bundle", "create", "-q", "../forged.bundle", "--all")
    return folder / "forged.bundle"


def literally(repository: Path, item: GitObject) -> None:
    subprocess.run(
        ["git", "hash-object", "-w", "-t", item.type, "--literally", "--stdin"],
        cwd=repository, input=item.data, capture_output=True, check=True,
    )  # fmt: skip


def lawful_files() -> dict[str, bytes]:
    text, profile = toml.encode_transition(transition(0, None), {})
    return {
        "session.toml": toml.encode_settings(settings("softmax-1")),
        "problem.py": b"class Model: ...\n",
        "problem.toml": b"",
        "kernel.py": b"class ModelNew: ...\n",
        "transition.toml": text,
        "profile.json": profile,
        "exchange.jsonl": b"",
    }


LAWFUL = trailers.message(transition(0, None))


def test_the_forger_can_write_a_lawful_bundle(tmp_path: Path) -> None:
    store = import_bundle(forge(tmp_path, lawful_files(), message=LAWFUL), tmp_path / "there")
    assert store.transition(0) == transition(0, None)


def renamed(name: str) -> bytes:
    return toml.encode_settings(msgspec.structs.replace(settings("softmax-1"), name=name))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"run.sh": b"#!/bin/sh\n"}, "its files are"),
        ({".gitattributes": b"* filter=evil\n"}, "its files are"),
        ({".gitmodules": b'[submodule "x"]\n\tpath = x\n\turl = ext::sh\n'}, "its files are"),
        ({".git": b"gitdir: /\n"}, "hasDotgit"),
        ({"..": b"x"}, "hasDotdot"),
        ({"kernel.py": b"\xff\xfe"}, "kernel.py is not UTF-8 text"),
        ({"problem.py": b"\xff\xfe"}, "its problem is not UTF-8 text"),
        ({"session.toml": b"format = 9\n"}, "format 9"),
        ({"session.toml": renamed("../evil")}, "cannot be a session's name"),
        ({"session.toml": renamed("/tmp/evil")}, "cannot be a session's name"),
        ({"transition.toml": b"number = 0\n"}, "cannot be read"),
        ({"transition.toml": b"number = "}, "cannot be read"),
        ({"profile.json": b"{"}, "cannot be read"),
        ({"exchange.jsonl": b"[1]\n"}, "cannot be read"),
        ({"transition.toml": toml.encode_transition(transition(5, None), {})[0]}, "transition 5"),
        (
            {"transition.toml": toml.encode_transition(transition(0, None, Answer.VETOED), {})[0]},
            "its message does not say what its record says",
        ),
    ],
)  # fmt: skip
def test_a_version_that_is_not_as_it_must_be_is_refused(
    tmp_path: Path, change: dict[str, bytes], says: str
) -> None:
    file = forge(tmp_path, {**lawful_files(), **change}, message=LAWFUL)
    with pytest.raises(WorkbenchError) as told:
        import_bundle(file, tmp_path / "there")
    assert says in told.value.what
    assert list((tmp_path / "there").iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["forge", "forged.bundle", "there"]


@pytest.mark.parametrize("missing", ["kernel.py", "session.toml", "transition.toml"])
def test_a_version_that_lacks_a_file_is_refused(tmp_path: Path, missing: str) -> None:
    files = lawful_files()
    del files[missing]
    with pytest.raises(WorkbenchError, match="not a session's bundle"):
        import_bundle(forge(tmp_path, files, message=LAWFUL), tmp_path / "there")


@pytest.mark.parametrize("mode", ["120000", "100755"])
def test_a_symlink_or_program_in_place_of_a_kernel_is_refused(tmp_path: Path, mode: str) -> None:
    file = forge(tmp_path, lawful_files(), message=LAWFUL, mode=mode)
    with pytest.raises(WorkbenchError, match=r"'kernel.py' in .* is not a plain file"):
        import_bundle(file, tmp_path / "there")


def test_a_parent_that_nobody_recorded_is_refused(tmp_path: Path) -> None:
    file = forge(tmp_path, lawful_files(), message=LAWFUL, merge=True)
    with pytest.raises(WorkbenchError, match="parent is not the version it was made from"):
        import_bundle(file, tmp_path / "there")


def test_references_that_no_session_has_do_not_come_in(store: SessionStore, tmp_path: Path) -> None:
    names = [
        "refs/heads/evil", "refs/tags/v1", "refs/replace/" + "1" * 40, "refs/notes/commits",
        "refs/remotes/origin/main", "refs/attempts/00001", "refs/stash",
    ]  # fmt: skip
    for name in names:
        git(store.folder, "update-ref", name, "refs/attempts/0000")
    git(store.folder, "bundle", "create", "-q", str(tmp_path / "all.bundle"), "--all", "HEAD")
    again = import_bundle(tmp_path / "all.bundle", tmp_path / "there")
    assert git(again.folder, "for-each-ref", "--format=%(refname)").split() == [
        "refs/attempts/0000", "refs/attempts/0001", "refs/attempts/0002", "refs/heads/best",
        "refs/heads/main", "refs/pending/0003", "refs/session/start",
    ]  # fmt: skip


def test_a_reference_that_leads_out_of_its_folder_does_not_come_in(
    store: SessionStore, tmp_path: Path
) -> None:
    file = tmp_path / "s.bundle"
    export_bundle(store, file)
    data = file.read_bytes()
    main = git(store.folder, "rev-parse", "main").strip()
    evil = f"{main} refs/attempts/../../../../evil\n".encode()
    start = data.index(b"\n") + 1
    file.write_bytes(data[:start] + evil + data[start:])
    again = import_bundle(file, tmp_path / "there")
    assert again.overview() == store.overview()
    assert list(tmp_path.rglob("*evil*")) == []


def test_a_place_that_takes_no_session_is_not_the_bundles_fault(
    store: SessionStore, tmp_path: Path
) -> None:
    export_bundle(store, tmp_path / "s.bundle")
    with pytest.raises(WorkbenchError, match="no repository can be made there"):
        import_bundle(tmp_path / "s.bundle", Path("/proc/self"))
