"""The app that starts without a session: it lists the sessions and can start a run."""

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from textual.command import Provider

from workbench.engine.view import Snapshot, State
from workbench.tui.dialogs.sessions import Choice, Sessions
from workbench.tui.leave import Leave
from workbench.tui.palette import Cards, OtherSessions
from workbench.tui.scene import Scene
from workbench.tui.settings import Settings
from workbench.tui.skin import Skinned


class HomeApp(Skinned):
    """Shows the list of sessions. `run()` returns the one to open; None when the user left."""

    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {OtherSessions, Cards}

    def __init__(self, folder: Path, *, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self.folder = folder

    @property
    def scene(self) -> Scene:
        """A scene without a session."""
        return no_session(self)

    def go_to(self, path: Path) -> None:
        """Open that session."""
        self._chosen(Choice(path=path))

    def on_mount(self) -> None:
        """Show the list at once."""
        self.dress()
        keys = self.settings.keymap.table
        self.push_screen(Sessions(no_session(self), keys, self.folder), self._chosen)
        self.call_after_refresh(self.tell_faults)

    def _chosen(self, choice: Choice | None) -> None:
        if choice is None:
            self.exit(None)
        else:
            self.exit(Leave(session="", state=State.SAVED, path=choice.path, start=choice.start))

    async def action_quit(self) -> None:
        """Leave on ctrl+c."""
        self.exit(None)


def no_session(app: Skinned) -> Scene:
    """A scene in which no session is open."""
    snapshot = Snapshot(
        revision=0, name="", path="", problem="", device="", target="", mode="", state=State.SAVED
    )
    return Scene(snapshot=snapshot, look=app.look)
