"""The screen on one session: what a person may wish for, and the ways out."""

import os
from collections.abc import Callable
from typing import ClassVar

from textual.binding import BindingType
from textual.command import Provider

from workbench.engine.view import State
from workbench.tui import clipboard
from workbench.tui.dialogs.ask import Confirm
from workbench.tui.dialogs.review import Review
from workbench.tui.keys import Place, bindings
from workbench.tui.leave import leaving
from workbench.tui.looking import Looking
from workbench.tui.palette import Commands, Versions
from workbench.tui.scene import ALIVE


class WorkbenchApp(Looking):
    """One session on the screen. `run()` returns how it stood when the person left."""

    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {Commands, Versions}
    BINDINGS: ClassVar[list[BindingType]] = bindings(Place.BOARD)

    # -- steering -------------------------------------------------------------------------------

    def action_pause(self) -> None:
        """Pause after the running step, or go on."""
        paused = self.scene.snapshot.state is State.PAUSED
        self.wish(self._client.go() if paused else self._client.pause())

    def action_stop(self) -> None:
        """End the run after the running step, if the person says yes."""
        if self.scene.snapshot.state not in ALIVE:
            self.notify("no engine runs on this session", severity="warning")
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self.wish(self._client.stop())

        says = "End the run after the running step? Every version is kept."
        self.push_screen(Confirm("Stop", says, self.look), answered)

    def on_review_widened(self, event: Review.Widened) -> None:
        """A card's coming steps are accepted, too."""
        self.widen(event.scope)

    def action_end_scope(self) -> None:
        """Ask about every step again."""
        if self.scene.scope:
            self.widen(None)
            self.notify("every step is asked about again", markup=False)

    # -- copying and leaving --------------------------------------------------------------------

    def action_copy(self) -> None:
        """What the pane in focus has to give."""
        self._copy(self.board.pane.copied())

    def on_review_copied(self, event: Review.Copied) -> None:
        """The review's diff."""
        self._copy(event.text)

    def _copy(self, text: str) -> None:
        if not text:
            self.notify("there is nothing to copy here", severity="warning")
            return
        sequence = clipboard.osc52(text, os.environ)
        if sequence and self._driver is not None:
            self._driver.write(sequence)
        try:
            path = clipboard.save(text)
        except OSError:
            path = None
        self.notify(clipboard.told(text, path, sent=bool(sequence)), markup=False)

    def action_leave(self) -> None:
        """Leave the screen; the run goes on."""
        self.exit(leaving(self.scene.snapshot))

    async def action_quit(self) -> None:
        """Textual's own way out is ours."""
        self.action_leave()
