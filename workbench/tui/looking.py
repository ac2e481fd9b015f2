"""Opens the dialogs over the main screen: review, comparison, reasons, log, help."""

from contextlib import ExitStack

from textual.command import CommandPalette

from workbench.tui.dialogs.compare import Compare
from workbench.tui.dialogs.following import Prepared
from workbench.tui.dialogs.review import Review
from workbench.tui.dialogs.text import TextBox, help_lines, log_lines
from workbench.tui.dialogs.thoughts import Thoughts
from workbench.tui.dialogs.why import why_lines
from workbench.tui.keys import Place, shown_by_id
from workbench.tui.palette import Find
from workbench.tui.scene import Scene, version_of
from workbench.tui.showing import Showing


class Looking(Showing):
    """The app's actions that only show something."""

    def _open(self, number: int | None) -> None:
        version = version_of(self.scene.snapshot, number)
        if version is None:
            self.notify("its gate is still running; there is nothing yet", severity="warning")
        elif self.screen is self.board:
            keys = self.settings.keymap.table
            self._present(Review(self._moments.reading, self.scene, version.number, keys))

    def _present(self, dialog: Prepared) -> None:
        """Open a dialog, which takes keys at once, but paint it only when it is complete."""
        held = ExitStack()
        held.enter_context(self.batch_update())

        async def paint() -> None:
            with held:
                await dialog.ready.wait()

        self.push_screen(dialog)
        self.run_worker(paint(), group="paint")

    def action_review(self) -> None:
        """Review the version that waits, else the selected one."""
        pending = self.scene.snapshot.pending
        self._open(pending if pending is not None else self.scene.selected)

    def action_diff(self) -> None:
        """Show the selected version against its parent."""
        self._open(self.scene.selected)

    def action_mark(self) -> None:
        """Mark the selected version to compare others with, or take the mark away."""
        selected = self.scene.selected
        self._moments.mark = None if selected == self._moments.mark else selected
        self._show()

    def action_compare(self) -> None:
        """Compare the selected version with the marked one."""
        snapshot, mark, selected = self.scene.snapshot, self.scene.mark, self.scene.selected
        if version_of(snapshot, mark) is None or version_of(snapshot, selected) is None:
            key = shown_by_id(self.settings.keymap.table, "mark")
            says = f"mark a version first: {key}, then select the other one"
            self.notify(says, severity="warning", markup=False)
        elif mark == selected:
            says = f"v{mark} is the marked one; select another to compare it with"
            self.notify(says, severity="warning", markup=False)
        elif mark is not None and selected is not None and self.screen is self.board:
            pair = (mark, selected)
            keys = self.settings.keymap.table
            self._present(Compare(self._moments.reading, self.scene, pair, keys))

    def action_thoughts(self) -> None:
        """Show what the model says, as it streams."""
        if self.scene.snapshot.talk is None:
            says = "no model was asked in this session so far"
            self.notify(says, severity="warning", markup=False)
        else:
            self.push_screen(Thoughts(self.scene))

    def action_why(self) -> None:
        """Show why the selected version was tried."""
        self._why(self.scene)

    def on_review_asked(self, event: Review.Asked) -> None:
        """Show why the version under review was tried."""
        self._why(event.scene)

    def _why(self, scene: Scene) -> None:
        number = f"v{scene.selected}" if scene.selected is not None else "this step"
        self.push_screen(TextBox(f"Why {number}", "esc closes", why_lines, scene))

    def action_focus_pane(self, number: int) -> None:
        """Focus a pane by its number."""
        self.board.focus_pane(number)

    def action_zoom(self) -> None:
        """Show the focused pane alone, or all panes."""
        self.board.toggle_zoom()

    def action_find(self) -> None:
        """Open the palette with versions only."""
        self.push_screen(CommandPalette([Find], placeholder="Find a version…"))

    def action_palette(self) -> None:
        """Open the palette of commands, versions, cards and sessions."""
        self.action_command_palette()

    def action_log(self) -> None:
        """Show the log of events, newest at the end."""
        log = log_lines(self.scene.snapshot)
        self.push_screen(TextBox("Log", "esc closes", log, self.scene, end=True))

    def action_help(self) -> None:
        """Show the keys of the focused pane."""
        pane = self.board.pane
        self.tell_keys(f"Keys in {pane.number} {pane.heading}", pane.place, Place.BOARD)

    def on_review_help_wanted(self) -> None:
        """Show the keys of the review."""
        self.tell_keys("Keys in the review", Place.REVIEW, Place.DIFF)

    def on_compare_help_wanted(self) -> None:
        """Show the keys of the comparison."""
        self.tell_keys("Keys in the comparison", Place.COMPARE, Place.DIFF, Place.LIST)

    def tell_keys(self, title: str, *places: Place) -> None:
        """Show the keys that work in these places."""
        table = self.settings.keymap.table
        down, up = shown_by_id(table, "down"), shown_by_id(table, "up")
        foot = f"{down} {up} scroll   rebind them in config.toml, section keys"
        self.push_screen(TextBox(title, foot, help_lines(table, places), self.scene))

    def action_theme(self) -> None:
        """Choose a theme."""
        self.search_themes()
