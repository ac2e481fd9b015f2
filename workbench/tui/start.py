"""From session to session until the person leaves; an engine is a process of its own."""

from pathlib import Path

from workbench.engine.client import SessionClient
from workbench.engine.create import request_run
from workbench.engine.spawn import spawn_engine
from workbench.errors import WorkbenchError
from workbench.session.records import Budget
from workbench.tui.leave import Leave
from workbench.tui.settings import load_settings


def show(path: Path, *, start: bool, folder: Path) -> Path:
    """Show a session, then whichever the person goes to; returns the one that was left.

    `folder` is where the list of sessions looks. Raises WorkbenchError where the first cannot be
    shown; a fault of a later one leads back to the one before.
    """
    from workbench.tui.app import WorkbenchApp

    said = ""
    if start:
        spawn_engine(path)
    while True:
        client = SessionClient(path, starting=start)
        left = WorkbenchApp(client, folder=folder, settings=load_settings(), says=said).run()
        said = ""
        if left is None or left.path is None:
            return path
        try:
            _ready(left)
        except WorkbenchError as fault:
            said, start = str(fault), False
        else:
            path, start = left.path, left.start


def home(folder: Path) -> Path | None:
    """The list first, then as `show`; None when no session was opened. Raises WorkbenchError."""
    from workbench.tui.home import HomeApp

    left = HomeApp(folder).run()
    if left is None or left.path is None:
        return None
    _ready(left)
    return show(left.path, start=left.start, folder=folder)


def _ready(left: Leave) -> None:
    """See that the session can be read, and start its engine where that is wanted."""
    if left.path is None:
        return
    SessionClient(left.path)
    if left.start:
        request_run(left.path, mode=None, budget=Budget())
        spawn_engine(left.path)
