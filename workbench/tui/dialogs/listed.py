"""A screen of one list with a filter and a key bar: sessions, skills."""

import asyncio
from typing import ClassVar, Generic, TypeVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from workbench.errors import WorkbenchError
from workbench.tui.dialogs.text import TextBox, help_lines
from workbench.tui.draw import line
from workbench.tui.keys import Key, Place, bindings, keys_of
from workbench.tui.look import Look, dressed
from workbench.tui.panes.keybar import KeyBar
from workbench.tui.panes.listing import Listing, Row
from workbench.tui.scene import Scene

Result = TypeVar("Result")


class Listed(ModalScreen[Result | None], Generic[Result]):
    """Reads its rows in a thread; a subclass acts on the selected row."""

    place: ClassVar[Place]
    heading: ClassVar[str]
    """Plural of what is listed: `Sessions`."""
    heads: ClassVar[tuple[str, ...]]
    """Names of the columns."""
    empty: ClassVar[tuple[str, ...]]
    """Lines that are shown while there is no row."""
    keep: ClassVar[tuple[str, ...]]
    """Ids of keys that the bar always shows."""
    BINDINGS: ClassVar[list[BindingType]] = bindings(Place.LISTED)

    def __init__(self, scene: Scene, keys: tuple[Key, ...]) -> None:
        super().__init__()
        self.scene = scene
        self._keys = keys
        self.listing = Listing(self.heads, self.empty)
        self._bar = KeyBar(
            keys_of(keys, self.place, Place.LISTED), lambda key, _: key.label, keep=self.keep
        )

    @property
    def look(self) -> Look:
        """The look of the theme in force when it opened."""
        return self.scene.look

    def compose(self) -> ComposeResult:
        """The list, its filter, the keys."""
        with Vertical(classes="box listed") as box:
            yield self.listing
            yield Input(placeholder="words to filter by", id="filter", select_on_focus=False)
            yield self._bar
        box.border_title = dressed(line(self.heading), self.look)

    def on_mount(self) -> None:
        """Show the empty list, then read the rows."""
        field = self.query_one("#filter", Input)
        field.cursor_blink = False
        field.display = False
        self.listing.show_scene(self.scene)
        self._bar.show_scene(self.scene)
        self.listing.focus()
        self.read_again()

    def rows(self) -> tuple[Row, ...]:
        """All rows; called in a thread. Raises WorkbenchError or OSError."""
        raise NotImplementedError

    def read_again(self) -> None:
        """Read the rows again."""

        async def read() -> None:
            try:
                rows = await asyncio.to_thread(self.rows)
            except (WorkbenchError, OSError) as fault:
                self.refuse(fault)
                return
            self.listing.fill(rows)
            all_of_them = self.heading.lower()
            one = all_of_them.removesuffix("s")
            self.foot(f"{len(rows)} {one if len(rows) == 1 else all_of_them}")

        self.run_worker(read(), group="rows", exclusive=True)

    def foot(self, text: str) -> None:
        """Show a text in the lower border."""
        says = dressed(line((text, self.look.muted)), self.look)
        self.query_one(".box").border_subtitle = says

    def refuse(self, fault: Exception) -> None:
        """Show why something was not done."""
        self.notify(str(fault), severity="error", timeout=10, markup=False)

    def act(self) -> None:
        """Do to the selected row what enter means."""
        raise NotImplementedError

    def action_act(self) -> None:
        """Act on the selected row, if there is one."""
        if self.listing.current is not None:
            self.act()

    def on_listing_opened(self) -> None:
        """A second click is enter."""
        self.action_act()

    def action_filter(self) -> None:
        """Open the field for the words that rows must contain."""
        field = self.query_one("#filter", Input)
        field.display = True
        field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter the list with every letter."""
        self.listing.narrow(event.value)

    def on_input_submitted(self) -> None:
        """Go back to the list, which stays filtered."""
        field = self.query_one("#filter", Input)
        field.display = bool(field.value)
        self.listing.focus()

    def action_help(self) -> None:
        """The keys of this list."""
        draw = help_lines(self._keys, (self.place, Place.LISTED, Place.LIST))
        self.app.push_screen(TextBox(f"Keys in {self.heading}", "esc closes", draw, self.scene))

    def action_back(self) -> None:
        """Leave the filter first, then the list."""
        field = self.query_one("#filter", Input)
        if field.display:
            field.value, field.display = "", False
            self.listing.focus()
        else:
            self.dismiss(None)
