"""The layout of a session's folder and the names of its references.

`main` is the accepted line, `best` the fastest accepted kernel, `refs/attempts/NNNN` every decided
transition, `refs/pending/NNNN` one that waits for a person, `refs/session/start` the tree of files
that a session begins with, before it has any kernel.
"""

import re
from pathlib import Path
from typing import NamedTuple

from workbench.errors import WorkbenchError

START = "refs/session/start"
MAIN = "refs/heads/main"
BEST = "refs/heads/best"

START_FILES = ("session.toml", "problem.py", "problem.toml")
STEP_FILES = ("kernel.py", "transition.toml", "profile.json", "exchange.jsonl")
FILES = (*START_FILES, *STEP_FILES)
"""The whole tree of a transition's commit."""

_NUMBERED = re.compile(r"refs/(attempts|pending)/(\d{4,9})")

_REAL_FOLDERS = (".git", ".git/objects", ".git/refs", ".git/workbench")
_NO_SYMLINKS = (
    *("HEAD", "config", "index", "packed-refs", "logs", "info", "objects/info", "objects/pack"),
    *("refs/heads", "refs/attempts", "refs/pending", "refs/session", "refs/moves", "refs/code"),
    "refs/spends",
    *("workbench/events.jsonl", "workbench/exchange.jsonl", "workbench/engine.lock"),
    *("workbench/scratch", "workbench/shown", "workbench/start.json", "workbench/engine.log"),
)
_LOCKS = ("HEAD.lock", "index.lock", "packed-refs.lock", "packed-refs.new")


def attempt_ref(number: int) -> str:
    """Where a decided transition is kept."""
    return f"refs/attempts/{number:04d}"


def pending_ref(number: int) -> str:
    """Where a transition waits for a person."""
    return f"refs/pending/{number:04d}"


class Numbered(NamedTuple):
    """What the name of a version's reference says."""

    number: int
    pending: bool


def numbered(ref: str) -> Numbered | None:
    """The number in a reference's name; None when it is not the name of a version."""
    found = _NUMBERED.fullmatch(ref)
    if not found:
        return None
    row = Numbered(int(found[2]), found[1] == "pending")
    return row if ref == (pending_ref if row.pending else attempt_ref)(row.number) else None


def on_main(git_dir: Path) -> bool:
    """Whether the folder shows `main`, and no other branch or older commit."""
    return (git_dir / "HEAD").read_bytes() == b"ref: refs/heads/main\n"


def refuse_detours(folder: Path) -> None:
    """WorkbenchError unless the folder is a session's, whole and inside itself.

    A stranger's folder could hold a symlink where we write, or point git at objects elsewhere.
    """
    try:
        _refuse_detours(folder)
    except PermissionError as fault:
        raise WorkbenchError(
            "the session cannot be looked into: permission denied",
            where=str(fault.filename),
            todo=f"ask its owner for `workbench export {folder.name} FILE` or for read rights",
        ) from fault


def _refuse_detours(folder: Path) -> None:
    if not folder.is_dir():
        raise WorkbenchError(
            "there is no such session",
            where=str(folder),
            todo="`workbench sessions` lists those that are there",
        )
    for name in _REAL_FOLDERS:
        path = folder / name
        if path.is_symlink() or not path.is_dir():
            raise not_a_session(folder, f"{name} is not a folder in it")
    for name in _NO_SYMLINKS:
        if (folder / ".git" / name).is_symlink():
            raise not_a_session(folder, f".git/{name} is a symlink")
    for name in (".git/objects/info/alternates", ".git/commondir"):
        if (folder / name).exists():
            raise not_a_session(folder, f"{name} says that its history lies elsewhere")


def not_a_session(folder: Path, why: str) -> WorkbenchError:
    """The error for a folder that is something else."""
    return WorkbenchError(
        f"this is not a session of the workbench: {why}",
        where=str(folder),
        todo="name a session's folder, or start one with `workbench run`",
    )


def lock_files(git_dir: Path) -> list[Path]:
    """Locks that a killed git command may have left on what we change."""
    found = [git_dir / name for name in _LOCKS]
    for folder in ("heads", "attempts", "pending", "session", "moves", "spends", "code"):
        found += (git_dir / "refs" / folder).glob("*.lock")
    return [path for path in found if path.exists()]
