"""The engine as a process of its own, which outlives the screen, the terminal and the SSH link."""

import os
import subprocess
import sys
from pathlib import Path

from workbench.engine.opening import lock_path
from workbench.errors import WorkbenchError
from workbench.session.lock import holder
from workbench.session.reader import SessionReader


def spawn_engine(path: Path) -> None:
    """Start an engine on the session unless one holds it already; does not wait for it.

    It gets a session of its own (setsid), no terminal, and writes what it prints to `engine.log`
    beside the event log. Raises WorkbenchError when the process cannot be started.
    """
    store = SessionReader(path)
    if holder(lock_path(store)) is not None:
        return
    log = store.state / "engine.log"
    try:
        with log.open("ab") as out:
            subprocess.Popen(
                [sys.executable, "-m", "workbench.engine.process", str(path.resolve())],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                cwd="/",
                env=os.environ.copy(),
            )
    except OSError as fault:
        raise WorkbenchError(
            f"the engine cannot be started: {fault.strerror}",
            where=str(log),
            todo="see that the disk has space, the folder is yours and processes may be started",
        ) from fault
