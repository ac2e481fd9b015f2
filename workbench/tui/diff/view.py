"""The widget that shows a diff: it scrolls, jumps between changes and adapts to its width."""

from typing import ClassVar

from textual.binding import BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Visual

from workbench.tui.diff.paint import SPLIT_FROM, Compared, Painted, paint
from workbench.tui.keys import Place, bindings
from workbench.tui.look import Look, dressed


class DiffView(ScrollView, can_focus=True):
    """Draws only the lines in view."""

    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = bindings(Place.DIFF)

    def __init__(self, look: Look) -> None:
        super().__init__()
        self.auto_links = False
        self.look = look
        self.painted = Painted((), ())
        self._compared: Compared | None = None
        self._split: bool | None = None
        self._whole = False
        self._laid_out = (0, False)
        """Width of what is painted, and whether it is split."""

    @property
    def is_split(self) -> bool:
        """Whether both sides are side by side: as the user chose, else by the terminal's width."""
        return self.app.size.width >= SPLIT_FROM if self._split is None else self._split

    def compare(self, compared: Compared) -> None:
        """Show this comparison from its top."""
        self._compared = compared
        # A hidden widget has no width: it is laid out when it gets one, even its previous one.
        self._laid_out = (0, False)
        self._lay_out()
        self._to(0)

    def on_resize(self) -> None:
        """Lay out again if the width or the form has changed."""
        if (self.scrollable_content_region.width, self.is_split) != self._laid_out:
            self._lay_out()

    def _lay_out(self) -> None:
        width = self.scrollable_content_region.width
        if width < 1 or self._compared is None:
            return
        self._laid_out = (width, self.is_split)
        self.painted = paint(
            self._compared, self.look, width, split=self.is_split, whole=self._whole
        )
        self.virtual_size = Size(width, len(self.painted.lines))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """The line at `y` of the window."""
        index = y + self.scroll_offset.y
        style = self.visual_style
        if index >= len(self.painted.lines):
            return Strip.blank(self.size.width, style.rich_style)
        content = dressed(self.painted.lines[index], self.look)
        return Visual.to_strips(self, content, self.size.width, 1, style, pad=True)[0]

    @property
    def hunk(self) -> tuple[int, int]:
        """Which change is at the top of the window, from 1, and how many there are."""
        top = self.scroll_offset.y
        passed = sum(start <= top + 1 for start in self.painted.hunks)
        return max(1, passed), len(self.painted.hunks)

    def action_split(self) -> None:
        """Switch between two columns and one."""
        self._split = not self.is_split
        self._lay_out()

    def action_whole(self) -> None:
        """Switch between the whole file and changes with their context."""
        self._whole = not self._whole
        self._lay_out()

    def action_next_hunk(self) -> None:
        """Go to the next change below the top of the window."""
        top = self.scroll_offset.y + 1
        below = [start for start in self.painted.hunks if start > top]
        if below:
            self._to(below[0] - 1)

    def action_previous_hunk(self) -> None:
        """Go to the change above."""
        top = self.scroll_offset.y + 1
        above = [start for start in self.painted.hunks if start < top]
        if above:
            self._to(above[-1] - 1)

    def _to(self, y: int) -> None:
        self.scroll_to(y=max(0, y), animate=False)

    def action_down(self) -> None:
        """One line down."""
        self._to(self.scroll_offset.y + 1)

    def action_up(self) -> None:
        """One line up."""
        self._to(self.scroll_offset.y - 1)

    def action_first(self) -> None:
        """Go to the top."""
        self._to(0)

    def action_last(self) -> None:
        """Go to the end."""
        self._to(len(self.painted.lines))
