"""The main screen: header, gate strip, five panes and key bar, laid out for the terminal's size."""

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.geometry import Size
from textual.message import Message
from textual.reactive import Reactive
from textual.screen import Screen
from textual.widget import Widget

from workbench.engine.view import State
from workbench.tui.keys import Key, Place, keys_of
from workbench.tui.layout import Layout, layout_of
from workbench.tui.panes.banner import Banner
from workbench.tui.panes.base import Lines, Pane
from workbench.tui.panes.budget import Budget
from workbench.tui.panes.card import Card
from workbench.tui.panes.header import Header
from workbench.tui.panes.keybar import KeyBar
from workbench.tui.panes.lineage import Lineage
from workbench.tui.panes.profile import Profile
from workbench.tui.panes.rungs import Rungs
from workbench.tui.panes.strip import GateStrip
from workbench.tui.scene import ALIVE, Scene


def label(key: Key, scene: Scene) -> str:
    """The label of a key in the main screen's bar at this moment; empty hides the key."""
    state = scene.snapshot.state
    if key.id == "pause":
        if scene.trouble:
            return "Connect"
        if scene.resumable or scene.met or state is State.PAUSED:
            return "Go on"
        return key.label if state in ALIVE else ""
    if key.id in {"review", "why", "diff", "find"} and not scene.snapshot.versions:
        return ""
    return key.label


class Board(Screen[None]):
    """Passes every new scene to its panes, and decides nothing."""

    scene: Scene | None = None
    # Textual would repaint the whole screen on a change of focus; only two panes need it.
    focused: Reactive[Widget | None] = Reactive(None, repaint=False)

    class Uncovered(Message):
        """The main screen is no longer covered by a dialog."""

    def __init__(self, table: tuple[Key, ...]) -> None:
        super().__init__()
        self._table = table
        self._bar = KeyBar(keys_of(table, Place.BOARD), label, keep=("help", "leave"))
        self._single = False
        self._zoomed = False

    def compose(self) -> ComposeResult:
        """Create the widgets from top to bottom."""
        self._lay_out(self.app.size)
        yield Header()
        yield GateStrip()
        yield Banner(self._table)
        with Horizontal(id="body"):
            yield Lineage(self._table)
            with Vertical(id="right"):
                yield Card()
                yield Profile()
        with Horizontal(id="meters"):
            yield Rungs()
            yield Budget()
        yield self._bar

    def on_mount(self) -> None:
        """Focus the lineage, and draw a scene that arrived before the panes existed."""
        self.query_one(Lineage).focus()
        if self.scene is not None:
            self.show_scene(self.scene)

    def on_screen_resume(self) -> None:
        """Report that a dialog was closed."""
        self.post_message(self.Uncovered())

    def show_scene(self, scene: Scene) -> None:
        """Draw a new scene in every pane."""
        self.scene = scene
        for lines in self.query(Lines):
            lines.show_scene(scene)

    def on_resize(self, event: events.Resize) -> None:
        """Choose the layout for the new size."""
        self._lay_out(event.size)
        self._show_one()

    def _lay_out(self, size: Size) -> None:
        layout = layout_of(size.width, size.height)
        for known in Layout:
            self.set_class(known is layout, known.value)
        self._single = layout is Layout.SINGLE

    def on_descendant_focus(self) -> None:
        """Where only one pane fits, show the focused one."""
        self._show_one()

    def _show_one(self) -> None:
        one = self._single or self._zoomed
        self.set_class(one, "one")
        for pane in self.query(Pane):
            pane.set_class(one and pane is self.pane, "shown")
        for box in (self.query_one("#body"), self.query_one("#right"), self.query_one("#meters")):
            box.set_class(one and self.pane in box.query(Pane), "shown")

    @property
    def pane(self) -> Pane:
        """The focused pane, or the lineage if none is focused."""
        return self.focused if isinstance(self.focused, Pane) else self.query_one(Lineage)

    def focus_pane(self, number: int) -> None:
        """Focus a pane by its number."""
        for pane in self.query(Pane):
            if pane.number == number:
                if self._single or self._zoomed:
                    _reveal(pane)
                pane.focus()

    def toggle_zoom(self) -> None:
        """Show the focused pane alone, or all panes again."""
        self._zoomed = not self._zoomed
        self._show_one()


def _reveal(pane: Pane) -> None:
    """Show a pane and its containers: a hidden pane cannot take the focus."""
    pane.add_class("shown")
    for box in pane.ancestors:
        if box.id in {"body", "right", "meters"}:
            box.add_class("shown")
