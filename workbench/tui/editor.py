"""Edits a candidate in the user's own editor; what the user wrote is never lost."""

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

from workbench.errors import WorkbenchError, reason
from workbench.paths import data_home

_MOST_DRAFTS = 999
"""Most files for edits of one version (ours)."""


def draft(session: str, number: int, source: str) -> Path:
    """Write a version's source to a new file and return its path. Raises WorkbenchError."""
    folder = data_home() / "edits"
    stem = f"{re.sub(r'[^A-Za-z0-9._-]', '-', session)}-v{number}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for copy in range(1, _MOST_DRAFTS + 1):
            path = folder / (f"{stem}.py" if copy == 1 else f"{stem}-{copy}.py")
            try:
                with path.open("x", encoding="utf-8") as file:
                    file.write(source)
            except FileExistsError:
                continue
            return path
    except OSError as fault:
        raise WorkbenchError(
            f"the candidate cannot be written: {reason(fault)}",
            where=str(folder),
            todo="make room there, or make the folder writable for you",
        ) from fault
    raise WorkbenchError(
        f"there are {_MOST_DRAFTS} edits of this version already",
        where=str(folder),
        todo="remove those that you no longer need",
    )


def open_editor(app: App[Any], path: Path) -> None:
    """Suspend the screen and wait for `$VISUAL`, `$EDITOR` or vi. Raises WorkbenchError."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        with app.suspend():
            left = subprocess.run([*shlex.split(editor), str(path)], check=False).returncode
    except SuspendNotSupported as fault:
        raise WorkbenchError(
            "this screen cannot make room for an editor",
            where=str(path),
            todo="edit the file elsewhere, then `workbench submit` it",
        ) from fault
    except (OSError, ValueError) as fault:
        raise WorkbenchError(
            f"the editor cannot be started: {fault}", where=editor, todo="set EDITOR"
        ) from fault
    if left:
        raise WorkbenchError(
            f"the editor left with {left}",
            where=editor,
            todo=f"nothing was done with it; what you saved is in {path}",
        )


def read_back(path: Path) -> str:
    """The text that the user saved. Raises WorkbenchError."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise WorkbenchError(
            f"the edit cannot be read: {reason(fault)}", where=str(path), todo="save it as UTF-8"
        ) from fault
