"""Edits a candidate in the user's own editor; what the user wrote is never lost."""

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

from textual.app import App, SuspendNotSupported

from workbench.errors import WorkbenchError
from workbench.paths import data_home


def draft(session: str, number: int, source: str) -> Path:
    """Write a version's source to a new file and return its path. Raises WorkbenchError."""
    folder = data_home() / "edits"
    stem = f"{re.sub(r'[^A-Za-z0-9._-]', '-', session)}-v{number}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for copy in range(1, 1000):
            path = folder / (f"{stem}.py" if copy == 1 else f"{stem}-{copy}.py")
            try:
                with path.open("x", encoding="utf-8") as file:
                    file.write(source)
            except FileExistsError:
                continue
            return path
    except OSError as fault:
        raise WorkbenchError(
            f"the candidate cannot be written: {fault.strerror}", where=str(folder)
        ) from fault
    raise WorkbenchError("there are a thousand edits of this version", where=str(folder))


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
        raise WorkbenchError(f"the editor left with {left}", where=f"{editor} {path}")


def read_back(path: Path) -> str:
    """The text that the user saved. Raises WorkbenchError."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise WorkbenchError(f"the edit cannot be read: {fault}", where=str(path)) from fault
