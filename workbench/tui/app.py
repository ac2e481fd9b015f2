"""The screen's wiring: news in, wishes out, and which dialog is open. It decides nothing itself."""

import asyncio
import os
import time
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, cast

from textual.app import App
from textual.binding import BindingType
from textual.command import CommandPalette, Provider
from textual.screen import Screen
from textual.timer import Timer

from workbench.engine.view import Snapshot, State
from workbench.errors import WorkbenchError
from workbench.tui import clipboard
from workbench.tui.board import Board
from workbench.tui.dialogs.ask import Confirm
from workbench.tui.dialogs.review import Review, lay_out
from workbench.tui.dialogs.text import TextBox, help_lines, log_lines
from workbench.tui.diff.highlight import warm
from workbench.tui.feed import Client, follow
from workbench.tui.keys import Place, bindings
from workbench.tui.leave import Leave, leaving
from workbench.tui.look import look_for
from workbench.tui.moments import Moments
from workbench.tui.palette import Commands, Find, Versions
from workbench.tui.panes.keybar import KeyBar
from workbench.tui.panes.lineage import Lineage
from workbench.tui.scene import ALIVE, Scene, outline, version_of
from workbench.tui.settings import Settings, load_settings
from workbench.tui.theme import DARK, MONO, Themes, load_themes, variables_for

_SETTLE_SECONDS = 0.05
"""The selection rests this long before its record is read, so that a held key reads nothing."""


class WorkbenchApp(App[Leave]):
    """One session on the screen. `run()` returns how it stood when the person left."""

    CSS_PATH = "workbench.tcss"
    TITLE = "workbench"
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {Commands, Versions}
    BINDINGS: ClassVar[list[BindingType]] = bindings(Place.BOARD)

    def __init__(
        self,
        client: Client,
        *,
        settings: Settings | None = None,
        themes: Themes | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings or load_settings()
        self._themes = themes or load_themes()
        colourless = "NO_COLOR" in os.environ
        # Textual alone would turn colours into truecolor greys; its ANSI mode sends none.
        super().__init__(ansi_color=True if colourless else None)
        self.animation_level = "none"
        self._client = client
        self._moments = Moments(client, clock)
        self._scene = Scene(snapshot=self._moments.snapshot)
        self._meter: Timer | None = None
        for theme in self._themes.themes:
            self.register_theme(theme)
        wanted = MONO if colourless else self.settings.tui.theme
        self._no_theme = wanted not in self.available_themes
        self.theme = DARK if self._no_theme else wanted

    def run(self, **options: Any) -> Leave | None:  # noqa: ANN401 -- Textual's own keyword arguments
        """Show the session until the person leaves."""
        options.setdefault("mouse", self.settings.tui.mouse)
        return super().run(**options)

    # -- starting -------------------------------------------------------------------------------

    def get_default_screen(self) -> Screen[None]:
        """The main screen."""
        return Board(self.settings.keymap.table)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our colours for a theme that does not give them."""
        return variables_for(self.current_theme)

    @property
    def board(self) -> Board:
        """The main screen, whatever lies over it."""
        return cast("Board", self.screen_stack[0])

    def on_mount(self) -> None:
        """Draw the first moment, then follow the session."""
        self.set_keymap(self.settings.keymap.overrides)
        self.set_class(self.settings.tui.glyphs == "ascii", "ascii")
        self._meter = self.set_interval(1.0, self._show, pause=True)
        self._arrive(self._client.snapshot())
        hz = self.settings.tui.refresh_hz
        self.run_worker(follow(self._client, self._arrive, self._lose, hz), group="feed")
        self.theme_changed_signal.subscribe(self, lambda _: self._show())
        self.call_after_refresh(self._settle)

    def _settle(self) -> None:
        """What can wait until the first frame is out."""
        self.run_worker(asyncio.to_thread(warm), group="warm")
        faults = [*self.settings.faults, *self._themes.faults]
        if self._no_theme:
            faults.append(f"tui.theme: no theme {self.settings.tui.theme!r}; {DARK} is used")
        if faults:
            text = "\n".join(faults)
            self.notify(text, title="Settings", severity="warning", timeout=12, markup=False)

    # -- news -----------------------------------------------------------------------------------

    def _arrive(self, snapshot: Snapshot) -> None:
        self._moments.arrive(snapshot)
        self._show()
        if self._meter is not None:
            (self._meter.resume if self._scene.working else self._meter.pause)()

    def _lose(self, why: str) -> None:
        self._moments.trouble = f"no more news of the session: {why}"
        self._show()

    def _show(self) -> None:
        """Hand this moment to every screen that draws one, and read what it lacks."""
        if not self.screen_stack:  # news that comes while the screen closes
            return
        colours = self.theme not in self._themes.colourless and not self.no_color
        ascii_glyphs = self.settings.tui.glyphs == "ascii"
        before = self._scene
        self._scene = self._moments.scene(look_for(colours=colours, ascii_glyphs=ascii_glyphs))
        # A change under a dialog repaints the dialog too, so a mere meter waits until it closes.
        if self.screen is self.board or outline(before) != outline(self._scene):
            self.board.show_scene(self._scene)
        for screen in self.screen_stack[1:]:
            if isinstance(screen, Review) and screen.is_mounted:
                screen.show_scene(self._scene)
        if self._scene.reading:
            self.run_worker(self._read(), group="read", exclusive=True)

    async def _read(self) -> None:
        await asyncio.sleep(_SETTLE_SECONDS)
        try:
            await self._moments.read()
        except (WorkbenchError, OSError) as fault:
            self._report(fault)
        else:
            self._show()

    def on_board_uncovered(self) -> None:
        """A dialog closed: catch up with what the meters did meanwhile."""
        self._show()

    def on_lineage_picked(self, event: Lineage.Picked) -> None:
        """Look at another version."""
        self._moments.pick(event.number)
        self._show()

    # -- wishes ---------------------------------------------------------------------------------

    def _wish(self, wish: Coroutine[Any, Any, str]) -> None:
        async def ask() -> None:
            try:
                says = await wish
            except WorkbenchError as fault:
                self._report(fault)
            else:
                self.notify(says, markup=False)

        self.run_worker(ask(), group="wish")

    def _report(self, fault: Exception) -> None:
        self.notify(str(fault), severity="error", timeout=10, markup=False)

    def action_pause(self) -> None:
        """Pause after the running step, or go on."""
        paused = self._scene.snapshot.state is State.PAUSED
        self._wish(self._client.go() if paused else self._client.pause())

    def action_stop(self) -> None:
        """End the run after the running step, if the person says yes."""
        if self._scene.snapshot.state not in ALIVE:
            self.notify("no engine runs on this session", severity="warning")
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self._wish(self._client.stop())

        says = "End the run after the running step? Every version is kept."
        self.push_screen(Confirm("Stop", says, self._scene.look), answered)

    # -- looking --------------------------------------------------------------------------------

    def _open(self, number: int | None) -> None:
        version = version_of(self._scene.snapshot, number)
        if version is None:
            self.notify("its gate still runs; there is nothing to look at yet", severity="warning")
        else:
            self.run_worker(self._review(version.number), group="open", exclusive=True)

    async def _review(self, number: int) -> None:
        """Read everything first, so that the review is complete when it opens."""
        reading, look = self._moments.reading, self._scene.look
        try:
            table = await lay_out(reading, self._scene.snapshot, number, look)
        except (WorkbenchError, OSError) as fault:
            self._report(fault)
            return
        if not isinstance(self.screen, Review):
            self.push_screen(Review(reading, self._scene, table, self.settings.keymap.table))

    def action_review(self) -> None:
        """The version that waits, else the selected one."""
        pending = self._scene.snapshot.pending
        self._open(pending if pending is not None else self._scene.selected)

    def action_diff(self) -> None:
        """The selected version against its parent."""
        self._open(self._scene.selected)

    def action_focus_pane(self, number: int) -> None:
        """Focus a pane by its number."""
        self.board.focus_pane(number)

    def action_zoom(self) -> None:
        """The focused pane alone, or all of them."""
        self.board.toggle_zoom()

    def action_find(self) -> None:
        """The palette with versions only."""
        self.push_screen(CommandPalette([Find], placeholder="Find a version…"))

    def action_palette(self) -> None:
        """Every command and version."""
        self.action_command_palette()

    def action_log(self) -> None:
        """What happened, newest at the end."""
        log = log_lines(self._scene.snapshot.log)
        self.push_screen(TextBox("Log", "esc closes", log, self._scene, end=True))

    def action_help(self) -> None:
        """The keys of the pane in focus."""
        pane = self.board.pane
        self._help(f"Keys in {pane.number} {pane.heading}", (pane.place, Place.BOARD))

    def on_review_help_wanted(self) -> None:
        """The keys of the review."""
        self._help("Keys in the review", (Place.REVIEW, Place.DIFF))

    def _help(self, title: str, places: tuple[Place, ...]) -> None:
        table = self.settings.keymap.table
        foot = "rebind them in config.toml, section keys"
        self.push_screen(TextBox(title, foot, help_lines(table, places), self._scene))

    def action_theme(self) -> None:
        """Choose a theme, seeing each as it is passed."""
        self.search_themes()

    def on_key_bar_pressed(self, event: KeyBar.Pressed) -> None:
        """A click on the bar is the key."""
        self.simulate_key(event.key)

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
        self.exit(leaving(self._scene.snapshot))

    async def action_quit(self) -> None:
        """Textual's own way out is ours."""
        self.action_leave()
