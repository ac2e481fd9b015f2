"""A list with columns, a selection and a filter, which draws only the rows in view."""

from typing import ClassVar

from msgspec import Struct
from textual import events
from textual.binding import BindingType
from textual.content import Content
from textual.message import Message

from workbench.tui.draw import Part, line, padded
from workbench.tui.keys import Place, bindings
from workbench.tui.look import Look
from workbench.tui.panes.base import Scroller
from workbench.tui.scene import Scene


class Row(Struct, frozen=True, kw_only=True):
    """One row of a list."""

    key: str
    """Identifies the row in its list."""
    cells: tuple[str, ...]
    style: str = ""
    """Role of the first cell: `good`, `warn`, `bad`, `accent`, `faint`, or empty."""


class Listing(Scroller):
    """The list; its last column takes the remaining width."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Place.LIST)

    class Opened(Message):
        """The selected row was clicked."""

    def __init__(self, heads: tuple[str, ...], empty: tuple[str, ...]) -> None:
        """`heads` are the names of the columns; `empty` is shown while there is no row."""
        super().__init__()
        self._heads = heads
        self._empty = empty
        self._read = False
        """Whether the rows were read once, so that no row means that there is none."""
        self._rows: tuple[Row, ...] = ()
        self._shown: tuple[Row, ...] = ()
        self._at = 0
        self.wanted = ""
        """The filter: words that a visible row contains."""

    def fill(self, rows: tuple[Row, ...]) -> None:
        """Replace the rows; the selection stays on its key if that still exists."""
        key = self.current.key if self.current is not None else ""
        self._rows = rows
        self._read = True
        self._narrow()
        self._at = next((i for i, row in enumerate(self._shown) if row.key == key), 0)
        self.redraw()

    def narrow(self, wanted: str) -> None:
        """Show only rows that contain all these words."""
        self.wanted = wanted
        self._narrow()
        self.redraw()

    def _narrow(self) -> None:
        words = self.wanted.lower().split()
        self._shown = tuple(
            row for row in self._rows if all(word in " ".join(row.cells).lower() for word in words)
        )
        self._at = min(self._at, max(0, len(self._shown) - 1))

    def choose(self, key: str) -> None:
        """Select a row by its key."""
        self._at = next((i for i, row in enumerate(self._shown) if row.key == key), self._at)
        self.redraw()

    @property
    def current(self) -> Row | None:
        """The selected row."""
        return self._shown[self._at] if self._at < len(self._shown) else None

    # -- drawing --------------------------------------------------------------------------------

    def draw(self, scene: Scene, width: int, height: int) -> list[Content]:
        """The heads, then the rows around the selection."""
        look = scene.look
        if not self._shown:
            texts = (f"nothing has {self.wanted!r} in it",) if self._rows else self._empty
            texts = texts if self._read else ("one moment…",)
            return [line(""), *(line((f" {text}", look.muted)) for text in texts)]
        room = max(1, height - 1)
        self.top = min(max(self.top, self._at - room + 1), self._at)
        widths = self._widths(width)
        lines = [self._line(self._heads, widths, [(look.muted)] * len(widths))]
        for index, row in enumerate(self._shown[self.top : self.top + room], start=self.top):
            lines.append(self._row(row, widths, look, width, selected=index == self._at))
        self.below = max(0, len(self._shown) - self.top - room)
        return lines

    def window(self, lines: list[Content], height: int) -> list[Content]:
        """All lines: `draw` returns only those in view."""
        return lines[:height]

    def _widths(self, width: int) -> list[int]:
        """Widths of the columns that fit, by their widest texts; the last ones may be dropped."""
        widths = [
            max(len(head), *(len(row.cells[place]) for row in self._rows))
            for place, head in enumerate(self._heads)
        ]
        while len(widths) > 1 and sum(widths) + 2 * len(widths) > width:
            spare = width - sum(widths[:-1]) - 2 * len(widths)
            if spare >= len(self._heads[len(widths) - 1]) + 4:
                widths[-1] = spare
                break
            widths.pop()
        return widths

    def _line(self, texts: tuple[str, ...], widths: list[int], styles: list[str]) -> Content:
        parts: list[Part] = [" "]
        for text, width, style in zip(texts, widths, styles, strict=False):
            parts += [(padded(text, width), style), "  "]
        return line(*parts)

    def _row(
        self, row: Row, widths: list[int], look: Look, width: int, *, selected: bool
    ) -> Content:
        strong = getattr(look, row.style) if row.style else ""
        quiet = look.text if selected else look.muted
        styles = [f"bold {strong}".strip()] + [quiet] * (len(widths) - 1)
        text = self._line(row.cells, widths, styles)
        if not selected:
            return text
        return text.pad_right(max(0, width - text.cell_length)).stylize_before(look.cursor)

    # -- moving ---------------------------------------------------------------------------------

    def scroll_lines(self, step: int) -> None:
        """Move the selection."""
        self._at = max(0, min(self._at + step, len(self._shown) - 1))
        self.redraw()

    def action_first(self) -> None:
        """The first row."""
        self.scroll_lines(-len(self._shown))

    def action_last(self) -> None:
        """The last row."""
        self.scroll_lines(len(self._shown))

    def on_click(self, event: events.Click) -> None:
        """Select the clicked row, or open it if it is selected."""
        index = self.top + event.y - self.gutter.top - 1
        if index == self._at:
            self.post_message(self.Opened())
        elif 0 <= index < len(self._shown):
            self.scroll_lines(index - self._at)
