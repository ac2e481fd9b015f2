"""The screen without a session: the list of those there are, and the first run."""

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
    """`run()` returns which session to show next; None when the person left."""

    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {OtherSessions, Cards}

    def __init__(self, folder: Path, *, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self.folder = folder

    @property
    def scene(self) -> Scene:
        """Nothing is open."""
        return no_session(self)

    def go_to(self, path: Path) -> None:
        """Show that session."""
        self._chosen(Choice(path=path))

    def on_mount(self) -> None:
        """The list at once."""
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
        """Ctrl+c leaves."""
        self.exit(None)


def no_session(app: Skinned) -> Scene:
    """A moment in which nothing is open."""
    snapshot = Snapshot(
        revision=0, name="", path="", problem="", device="", target="", mode="", state=State.SAVED
    )
    return Scene(snapshot=snapshot, look=app.look)
