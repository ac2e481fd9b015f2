"""What the command prints after the screen closes: how the run stands and how to come back."""

from pathlib import Path

from msgspec import Struct

from workbench.engine.view import Snapshot, State
from workbench.session.names import spoken
from workbench.tui.scene import ALIVE


class Leave(Struct, frozen=True, kw_only=True):
    """The session's state when the user left."""

    session: str
    state: State
    typed: str = ""
    """What to type for the session: its name, or its path where the name would not find it."""
    says: str = ""
    path: Path | None = None
    """The session to show next; None when the user left for good."""
    start: bool = False
    """Whether to start an engine on that session."""

    @property
    def goes_on(self) -> bool:
        """Whether an engine still runs."""
        return self.state in ALIVE

    def farewell(self) -> str:
        """The line to print."""
        typed = self.typed or self.session
        if self.goes_on:
            return f"Session {self.session} goes on. Come back: workbench attach {typed}"
        said = f": {self.says}" if self.says else ""
        resumed = self.state in {State.LOST, State.FAILED, State.STOPPED}
        tail = f"Go on: workbench resume {typed}"
        tail = tail if resumed else f"Look again: workbench attach {typed}"
        return f"Session {self.session} is {self.state}{said}. {tail}"


def leaving(snapshot: Snapshot) -> Leave:
    """The record for leaving now."""
    return Leave(
        session=snapshot.name,
        state=snapshot.state,
        typed=spoken(Path(snapshot.path)),
        says=snapshot.says.rstrip("."),
    )
