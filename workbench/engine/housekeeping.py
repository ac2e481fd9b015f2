"""Renames, archives or deletes a session that no engine holds."""

import shutil
from collections.abc import Callable
from pathlib import Path

from workbench.engine.opening import lock_path
from workbench.errors import WorkbenchError
from workbench.session.lock import EngineLock
from workbench.session.names import check_name
from workbench.session.reader import SessionReader

ARCHIVE = "archive"
"""Folder beside the sessions for archived ones, which lists leave out."""


def rename(path: Path, name: str) -> Path:
    """Give a session another name; returns its new folder.

    Raises WorkbenchError for a name that cannot be one or is taken, and while an engine runs.
    """
    return _moved(path, path.parent / check_name(name))


def archive(path: Path) -> Path:
    """Archive a session; `restore` brings it back. Raises WorkbenchError."""
    return _moved(path, path.parent / ARCHIVE / path.name)


def restore(path: Path) -> Path:
    """Bring an archived session back among the others. Raises WorkbenchError."""
    return _moved(path, path.parent.parent / path.name)


def delete(path: Path) -> None:
    """Remove a session with its history and the files in its folder; there is no way back.

    Raises WorkbenchError while an engine runs, and for a folder that holds no session.
    """
    _held(path, lambda: shutil.rmtree(path))


def archived(path: Path) -> bool:
    """Whether the session is archived."""
    return path.parent.name == ARCHIVE


def _moved(path: Path, target: Path) -> Path:
    def move() -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists():
            raise WorkbenchError(
                f"there is already a session {target.name!r}",
                where=str(target.parent),
                todo="choose another name",
            )
        path.rename(target)

    _held(path, move)
    return target


def _held(path: Path, do: Callable[[], None]) -> None:
    """Do it while holding the session's lock."""
    if path.is_symlink():
        raise WorkbenchError(
            "this is a link to a session, not the session", where=str(path), todo="remove the link"
        )
    store = SessionReader(path)
    try:
        with EngineLock(lock_path(store), session=path.name):
            do()
    except OSError as fault:
        raise WorkbenchError(
            f"the session's folder cannot be changed: {fault.strerror or fault}",
            where=str(path),
            todo="see that the folder is yours and its disk can be written to",
        ) from fault
