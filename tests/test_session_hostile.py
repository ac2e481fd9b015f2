"""A session's folder may come from anywhere: nothing in it is run, nothing outside is touched."""

import shutil
import subprocess
from pathlib import Path

import pytest
from session_kit import git, kernel, seeded, transition, write_object

from workbench.errors import WorkbenchError
from workbench.session import plumbing
from workbench.session.bundle import export_bundle
from workbench.session.check import check_session
from workbench.session.lock import EngineLock
from workbench.session.objects import blob, commit, tree
from workbench.session.records import Answer, Decision
from workbench.session.store import SessionStore

HOOKS = (
    "reference-transaction", "pre-commit", "post-commit", "post-checkout", "post-index-change",
    "pre-auto-gc", "update", "post-update", "fsmonitor-watchman", "pre-receive", "post-rewrite",
)  # fmt: skip


def use_everything(folder: Path, out: Path) -> None:
    """Every operation of a session, as an engine and its readers would do them."""
    store = SessionStore.open(folder)
    with EngineLock(store.state / "engine.lock", session=folder.name):
        store.recover()
        store.overview()
        store.decide(1, Decision(answer=Answer.ACCEPTED, by="person"), best=True)
        store.record(transition(2, 1, Answer.REJECTED), kernel(2))
        store.restore_worktree()
        store.record_of(2)
        store.tidy()
        assert check_session(store) == ()
        export_bundle(store, out)


# What a stranger could have planted


def plant(folder: Path, script: Path) -> None:
    """Every way we know in which a repository can name a program, all naming the script."""
    hooks = folder / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in HOOKS:
        shutil.copy(script, hooks / name)
    run = str(script)
    (folder / ".git" / "included").write_text(f"[core]\n\tfsmonitor = {run}\n")
    (folder / ".git" / "config").write_text(
        (folder / ".git" / "config").read_text()
        + f"""
[core]
    fsmonitor = {run}
    hooksPath = {hooks}
    sshCommand = {run}
    askPass = {run}
    editor = {run}
    pager = {run}
    gitProxy = {run}
    alternateRefsCommand = {run}
    attributesFile = {folder}/attributes
[include]
    path = included
[gpg]
    program = {run}
[commit]
    gpgSign = true
[tag]
    gpgSign = true
[log]
    showSignature = true
[diff]
    external = {run}
[diff "evil"]
    textconv = {run}
    command = {run}
[filter "evil"]
    clean = {run}
    smudge = {run}
    process = {run}
    required = true
[merge "evil"]
    driver = {run}
[credential]
    helper = !{run}
[remote "origin"]
    url = ext::{run}
    uploadpack = {run}
    promisor = true
    partialclonefilter = blob:none
[extensions]
    partialClone = origin
[protocol "ext"]
    allow = always
[gc]
    recentObjectsHook = {run}
[alias]
    update-ref = !{run}
    cat-file = !{run}
[pager]
    for-each-ref = {run}
    cat-file = {run}
[uploadpack]
    packObjectsHook = {run}
"""
    )
    for attributes in (folder / ".gitattributes", folder / ".git/info/attributes"):
        attributes.write_text("* filter=evil diff=evil merge=evil\n")


def test_nothing_that_a_strangers_repository_names_is_ever_run(tmp_path: Path) -> None:
    witness = tmp_path / "it-ran"
    script = tmp_path / "evil.sh"
    script.write_text(f"#!/bin/sh\necho $0 $@ >> {witness}\ncat\nexit 0\n")
    script.chmod(0o755)
    store = seeded(tmp_path)
    plant(store.folder, script)
    subprocess.run(["git", "status"], cwd=store.folder, capture_output=True, check=False)
    assert witness.exists()  # the traps are live: plain git springs them
    witness.unlink()
    use_everything(store.folder, tmp_path / "out.bundle")
    assert not witness.exists(), witness.read_text()


def test_an_object_that_is_missing_is_not_fetched_from_where_a_stranger_says(
    tmp_path: Path,
) -> None:
    witness = tmp_path / "it-ran"
    script = tmp_path / "evil.sh"
    script.write_text(f"#!/bin/sh\necho $0 $@ >> {witness}\n")
    script.chmod(0o755)
    store = seeded(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    git(tmp_path / "elsewhere", "init", "-q", "--bare")
    plant(store.folder, script)
    git(store.folder, "config", "remote.origin.url", str(tmp_path / "elsewhere"))
    gone = git(store.folder, "-c", "core.fsmonitor=", "rev-parse", "main:kernel.py").strip()
    (store.folder / ".git/objects" / gone[:2] / gone[2:]).unlink()
    witness.unlink(missing_ok=True)
    subprocess.run(
        ["git", "cat-file", "-p", gone], cwd=store.folder, capture_output=True, check=False
    )
    assert witness.exists()
    witness.unlink()
    with pytest.raises(WorkbenchError, match="history is damaged"):
        store.source(0)
    assert check_session(store)[0].where == "repository"
    assert not witness.exists(), witness.read_text()


@pytest.mark.parametrize(
    "place",
    [".git/refs", ".git/objects", ".git/workbench", ".git/refs/attempts", ".git/HEAD",
     ".git/workbench/events.jsonl", ".git/workbench/scratch", ".git/config"],
)  # fmt: skip
def test_a_folder_that_leads_elsewhere_by_a_symlink_is_refused(tmp_path: Path, place: str) -> None:
    folder = seeded(tmp_path).folder
    path = folder / place
    elsewhere = tmp_path / "elsewhere"
    if path.exists():
        path.rename(elsewhere)
    path.symlink_to(elsewhere)
    with pytest.raises(WorkbenchError, match="not a session of the workbench"):
        SessionStore.open(folder)


def test_a_git_file_that_points_to_another_repository_is_refused(tmp_path: Path) -> None:
    folder = seeded(tmp_path).folder
    (folder / ".git").rename(tmp_path / "real")
    (folder / ".git").write_text(f"gitdir: {tmp_path / 'real'}\n")
    with pytest.raises(WorkbenchError, match="not a session of the workbench"):
        SessionStore.open(folder)


@pytest.mark.parametrize("name", [".git/objects/info/alternates", ".git/commondir"])
def test_a_history_that_lies_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    store = seeded(tmp_path)
    (store.folder / name).parent.mkdir(exist_ok=True)
    (store.folder / name).write_text(f"{tmp_path}\n")
    with pytest.raises(WorkbenchError, match="its history lies elsewhere"):
        SessionStore.open(store.folder)


def test_a_symlink_in_place_of_a_file_is_a_persons_and_is_not_written_through(
    tmp_path: Path,
) -> None:
    store = seeded(tmp_path)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (store.folder / "kernel.py").unlink()
    (store.folder / "kernel.py").symlink_to(victim)
    use_everything(store.folder, tmp_path / "out.bundle")
    assert victim.read_text() == "precious"
    assert (store.folder / "kernel.py").is_symlink()


@pytest.mark.parametrize("mode", ["120000", "100755", "160000", "40000"])
def test_a_tree_with_anything_but_plain_files_is_refused(tmp_path: Path, mode: str) -> None:
    store = seeded(tmp_path)
    made = blob(b"/etc/passwd")
    ids = store.git.files("main")
    good = tree({**ids, "kernel.py": made.id})
    name = b"100644 kernel.py\0"
    bad = good._replace(data=good.data.replace(name, mode.encode() + b" kernel.py\0"))
    node = commit(bad.id, [], "a <a@b> 1 +0000", "a <a@b> 1 +0000", message(store))
    for item in (made, bad, node):
        write_object(store.folder, item.type, item.data)
    git(store.folder, "update-ref", "refs/attempts/0000", node.id)
    for read in (store.source, store.transition):
        with pytest.raises(WorkbenchError, match="not a plain file"):
            read(0)
    if mode != "40000":
        assert any("not a plain file" in fault.says for fault in check_session(store))


def message(store: SessionStore) -> str:
    return git(store.folder, "log", "-1", "--format=%B", "refs/attempts/0000")


def test_a_file_that_is_too_large_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = seeded(tmp_path)
    monkeypatch.setattr(plumbing, "FILE_CAP", 4)
    with pytest.raises(WorkbenchError, match="more than the 0 MiB that are read"):
        store.source(0)


# What a person's own machine could have set


@pytest.mark.parametrize(
    "name", ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE",
             "GIT_COMMON_DIR", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_QUARANTINE_PATH",
             "GIT_SHALLOW_FILE", "GIT_CONFIG", "GIT_TEMPLATE_DIR", "GIT_DEFAULT_HASH"],
)  # fmt: skip
def test_a_variable_of_git_in_the_environment_redirects_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    other = tmp_path / "other"
    git(tmp_path, "init", "-q", str(other))
    before = sorted(path.name for path in (other / ".git").rglob("*"))
    monkeypatch.setenv(name, "sha256" if name == "GIT_DEFAULT_HASH" else str(other / ".git"))
    store = seeded(tmp_path)
    use_everything(store.folder, tmp_path / "out.bundle")
    assert store.overview().main == 1
    assert sorted(path.name for path in (other / ".git").rglob("*")) == before


def test_a_persons_global_settings_neither_break_nor_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    witness, hooks, template = tmp_path / "it-ran", tmp_path / "hooks", tmp_path / "template"
    (template / "hooks").mkdir(parents=True)
    hooks.mkdir()
    for path in [*(hooks / name for name in HOOKS), template / "hooks" / "post-commit"]:
        path.write_text(f"#!/bin/sh\necho $0 >> {witness}\nexit 1\n")
        path.chmod(0o755)
    config = tmp_path / "gitconfig"
    config.write_text(
        f"""
[user]
    name = Ada <b> Lovelace
    email = ada@example.org
    signingKey = none
[commit]
    gpgSign = true
[gpg]
    program = /bin/false
[core]
    hooksPath = {hooks}
    autocrlf = true
    eol = crlf
    safecrlf = true
    attributesFile = {tmp_path}/attributes
    fsmonitor = {hooks}/fsmonitor-watchman
    quotePath = true
[init]
    templateDir = {template}
    defaultBranch = trunk
    defaultObjectFormat = sha256
[index]
    version = 4
[transfer]
    hideRefs = refs/attempts
[safe]
    directory = /nowhere
"""
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    store = seeded(tmp_path)
    store.record(transition(2, 0), "a = 1\r\nb = 2\n")
    assert not witness.exists()
    assert (store.folder / "kernel.py").read_bytes() == b"a = 1\r\nb = 2\n"
    assert store.source(2) == "a = 1\r\nb = 2\n"
    plain = git(store.folder, "-c", "core.fsmonitor=false", "status", "--porcelain")
    assert plain == ""
    shown = git(store.folder, "log", "-1", "--format=%an|%ae|%cn", "main").strip()
    assert shown == "Ada b Lovelace|ada@example.org|Ada b Lovelace"


def test_without_a_git_identity_the_workbench_signs_itself(tmp_path: Path) -> None:
    store = seeded(tmp_path)
    assert git(store.folder, "log", "-1", "--format=%an <%ae>", "main").strip() == (
        "workbench <workbench@localhost>"
    )


def test_an_unreadable_global_git_configuration_costs_no_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gitconfig").write_text("[user\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    assert seeded(tmp_path).overview().main == 0


def test_a_session_inside_another_repository_stays_itself(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    store = seeded(tmp_path)
    assert store.overview().main == 0
    assert git(tmp_path, "for-each-ref") == ""
    shutil.rmtree(store.folder / ".git")
    with pytest.raises(WorkbenchError, match="not a session of the workbench"):
        SessionStore.open(store.folder)


def test_a_newer_format_is_refused_by_its_number(tmp_path: Path) -> None:
    store = seeded(tmp_path)
    data = b"format = 2\nname = 'softmax-1'\n"
    root = tree({**store.git.files("refs/session/start"), "session.toml": blob(data).id})
    store.git.store([blob(data), root])
    git(store.folder, "update-ref", "refs/session/start", root.id)
    with pytest.raises(WorkbenchError, match="format 2; this one reads up to 1"):
        SessionStore.open(store.folder)
