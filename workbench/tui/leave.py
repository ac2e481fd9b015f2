"""What the command prints when the screen is gone: that the run goes on, and how to come back."""

from pathlib import Path

from msgspec import Struct

from workbench.engine.view import Snapshot, State
from workbench.tui.scene import ALIVE


class Leave(Struct, frozen=True, kw_only=True):
    """How the session stood when the person left."""

    session: str
    state: State
    says: str = ""
    path: Path | None = None
    """The session to show instead, where the person goes on to another."""
    start: bool = False
    """Whether an engine shall be started on that one."""

    @property
    def goes_on(self) -> bool:
        """Whether an engine still runs."""
        return self.state in ALIVE

    def farewell(self) -> str:
        """One line for the command line to print."""
        if self.goes_on:
            return f"Session {self.session} goes on. Come back: workbench attach {self.session}"
        said = f": {self.says}" if self.says else ""
        tail = {
            State.LOST: f" Go on: workbench resume {self.session}",
            State.FAILED: f" Go on: workbench resume {self.session}",
            State.STOPPED: f" Go on: workbench resume {self.session}",
        }.get(self.state, f" Look again: workbench attach {self.session}")
        return f"Session {self.session} is {self.state}{said}.{tail}"


def leaving(snapshot: Snapshot) -> Leave:
    """The farewell of this moment."""
    return Leave(session=snapshot.name, state=snapshot.state, says=snapshot.says.rstrip("."))
