"""Which names a session may have, so that a name is always one folder and never a way out of it."""

import re
import shlex
from pathlib import Path

from workbench.errors import WorkbenchError
from workbench.paths import data_home

LONGEST = 64
_NAME = re.compile(rf"[a-z0-9][a-z0-9._-]{{0,{LONGEST - 1}}}")
_RESERVED_ENDINGS = (".", ".lock", ".git", ".bundle", ".tmp")
"""Git refuses the first two in names of its own, the others are files of ours."""


def check_name(name: str) -> str:
    """The name itself; WorkbenchError when it cannot be a session's name."""
    if not _NAME.fullmatch(name):
        why = "it needs 1 to 64 of a-z, 0-9, `.`, `_`, `-`, and starts with a letter or digit"
    elif ".." in name or name.endswith(_RESERVED_ENDINGS):
        why = "it may not hold `..` nor end with `.`, `.lock`, `.git`, `.bundle` or `.tmp`"
    else:
        return name
    raise WorkbenchError(
        f"{name!r} cannot be a session's name: {why}", todo="choose a name like `softmax-1`"
    )


def spoken(path: Path) -> str:
    """What to type for a session: its name in the default folder, else its path."""
    home = (data_home() / "sessions").resolve()
    return path.name if path.parent.resolve() == home else shlex.quote(str(path.resolve()))


def session_names(folder: Path) -> tuple[str, ...]:
    """Names of the sessions in a folder, sorted; empty when the folder does not exist.

    Raises WorkbenchError for a file in its place.
    """
    if folder.is_file():
        raise WorkbenchError(
            "the folder of sessions is a file",
            where=str(folder),
            todo="name a folder with --sessions or WORKBENCH_SESSIONS",
        )
    if not folder.is_dir():
        return ()
    found = (entry.name for entry in folder.iterdir() if _may_be_session(entry))
    return tuple(sorted(name for name in found if _NAME.fullmatch(name)))


def _may_be_session(entry: Path) -> bool:
    """Also a folder that we may not look into: whoever reads it is told so."""
    try:
        return (entry / ".git" / "workbench").is_dir()
    except PermissionError:
        return True


def fresh_name(problem: str, folder: Path) -> str:
    """The problem's name with the first number above every one in use: `softmax-1`, `softmax-2`."""
    slug = re.sub(r"[^a-z0-9]+", "-", problem.lower()).strip("-") or "session"
    slug = slug[: LONGEST - 10].rstrip("-")
    pattern = re.compile(rf"{re.escape(slug)}-(\d{{1,9}})")
    taken = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    numbers = [int(match[1]) for name in taken if (match := pattern.fullmatch(name))]
    return f"{slug}-{max(numbers, default=0) + 1}"
