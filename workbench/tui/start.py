"""Shows sessions one after the other until the user leaves; starts engines where wanted."""

from pathlib import Path

from workbench.engine.client import SessionClient
from workbench.engine.create import request_run
from workbench.engine.spawn import spawn_engine
from workbench.errors import WorkbenchError
from workbench.session.records import Budget
from workbench.tui.leave import Leave
from workbench.tui.settings import load_settings


def show(path: Path, *, start: bool, folder: Path) -> Path:
    """Show a session, then any that the user switches to; returns the path of the last one.

    `start` starts an engine on it; `folder` holds the listed sessions. Raises WorkbenchError when
    the first session cannot be shown; when a later one cannot, the one before is shown again.
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
    """Show the list of sessions, then as `show`; None if none was opened. Raises WorkbenchError."""
    from workbench.tui.home import HomeApp

    left = HomeApp(folder).run()
    if left is None or left.path is None:
        return None
    _ready(left)
    return show(left.path, start=left.start, folder=folder)


def _ready(left: Leave) -> None:
    """Check that the session can be read, and start its engine if wanted."""
    if left.path is None:
        return
    SessionClient(left.path)
    if left.start:
        request_run(left.path, mode=None, budget=Budget())
        spawn_engine(left.path)
