"""Base classes of panes, which draw lines and repaint only those that changed."""

from typing import ClassVar, Self

from textual import events
from textual.binding import BindingType
from textual.content import Content
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.visual import Visual
from textual.widget import Widget

from workbench.tui.draw import Part, line
from workbench.tui.keys import Place, bindings
from workbench.tui.look import Look, dressed
from workbench.tui.scene import Scene


class Lines(Widget):
    """A widget whose content is a list of lines; a subclass only implements `draw`."""

    ALLOW_SELECT = False
    scene: Scene | None = None

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 -- Textual's name
        super().__init__(id=id, classes=classes)
        # With links on, every move of the mouse over the pane would repaint it.
        self.auto_links = False
        self._drawn: list[Content] = []
        self._drawn_for = Size(0, 0)

    def draw(self, scene: Scene, width: int, height: int) -> list[Content]:
        """The lines, top to bottom; a pane may return more than `height` when it can scroll."""
        raise NotImplementedError

    def show_scene(self, scene: Scene) -> None:
        """Draw a new scene; unchanged lines are not sent to the terminal."""
        self.scene = scene
        self.redraw()

    def redraw(self) -> None:
        """Draw again and mark the lines that differ."""
        before = self._drawn
        if self.scene is None or not self.size:
            return
        self._make(self.scene)
        for y in range(max(len(before), len(self._drawn))):
            if not _same(before, self._drawn, y):
                self.refresh(Region(0, y, self.size.width, 1))

    def _make(self, scene: Scene) -> None:
        width, height = self._drawn_for = self.size
        self._drawn = self.window(self.draw(scene, width, height), height)

    def window(self, lines: list[Content], height: int) -> list[Content]:
        """The part of the lines that is in view."""
        return lines[:height]

    def on_resize(self) -> None:
        """Draw for the new size."""
        self.redraw()

    def render_line(self, y: int) -> Strip:
        """One line in Textual's form."""
        style = self.visual_style
        if self.scene is not None and self._drawn_for != self.size:
            # The first paint comes before the resize event; without this it would be empty.
            self._make(self.scene)
        if y >= len(self._drawn) or self.scene is None:
            return Strip.blank(self.size.width, style.rich_style)
        content = dressed(self._drawn[y], self.scene.look)
        return Visual.to_strips(self, content, self.size.width, 1, style, pad=True)[0]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:  # noqa: ARG002 -- Textual's signature
        """For `height: auto`: as many lines as there are to draw."""
        return len(self.draw(self.scene, width, viewport.height)) if self.scene else 0

    @property
    def shown_lines(self) -> list[str]:
        """The drawn lines as plain text."""
        return [content.plain for content in self._drawn]


def _same(before: list[Content], after: list[Content], y: int) -> bool:
    return y < len(before) and y < len(after) and before[y].is_same(after[y])


class Scroller(Lines, can_focus=True):
    """Lines of which a window is in view; keys and the mouse wheel move it."""

    top: int = 0
    """First line in view."""
    below: int = 0
    """Lines under the window."""

    def window(self, lines: list[Content], height: int) -> list[Content]:
        """The lines from `top` on."""
        self.top = max(0, min(self.top, len(lines) - height))
        self.below = max(0, len(lines) - self.top - height)
        return lines[self.top : self.top + height]

    def scroll_lines(self, step: int) -> None:
        """Move the window over the lines."""
        self.top = max(0, self.top + step)
        self.redraw()

    def action_down(self) -> None:
        """One line down."""
        self.scroll_lines(1)

    def action_up(self) -> None:
        """One line up."""
        self.scroll_lines(-1)

    def action_page_down(self) -> None:
        """A page down, one line kept."""
        self.scroll_lines(max(1, self.size.height - 1))

    def action_page_up(self) -> None:
        """A page up, one line kept."""
        self.scroll_lines(-max(1, self.size.height - 1))

    def action_first(self) -> None:
        """Go to the top."""
        self.scroll_lines(-self.top)

    def action_last(self) -> None:
        """Go to the end."""
        self.scroll_lines(self.below)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll down with the wheel."""
        event.stop()
        self.scroll_lines(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll up with the wheel."""
        event.stop()
        self.scroll_lines(-3)


class Pane(Scroller):
    """A bordered pane of the main screen, with a number and a heading."""

    number: ClassVar[int]
    heading: ClassVar[str]
    place: ClassVar[Place] = Place.PANE
    BINDINGS: ClassVar[list[BindingType]] = bindings(Place.PANE)
    _titles: tuple[str, str, Look] | None = None
    _entitling: bool = False

    def aside(self, scene: Scene) -> str:  # noqa: ARG002 -- a pane may have none
        """The text beside the heading in the upper border."""
        return ""

    def foot(self, scene: Scene) -> str:  # noqa: ARG002 -- a pane may have none
        """The text in the lower border."""
        return ""

    def show_scene(self, scene: Scene) -> None:
        """Draw a new scene, from the top if another version is selected."""
        if self.scene is None or self.scene.selected != scene.selected:
            self.top = 0
        super().show_scene(scene)

    def redraw(self) -> None:
        """Draw the lines, and the border's texts if they changed."""
        super().redraw()
        if self.scene is not None:
            self._entitle(self.scene)

    def _entitle(self, scene: Scene) -> None:
        look = scene.look
        foot = f"{self.below} more below" if self.below else self.foot(scene)
        titles = (self.aside(scene), foot, look)
        if titles == self._titles:
            return
        self._titles = titles
        words: list[Part] = [(str(self.number), look.accent), f" {self.heading}"]
        if titles[0]:
            words.append((f"  {titles[0]}", f"not bold {look.muted}"))
        self._entitling = True
        self.border_title = dressed(line(*words), look)
        self.border_subtitle = dressed(line((foot, look.muted)), look) if foot else ""
        self._entitling = False

    def refresh(
        self,
        *regions: Region,
        repaint: bool = True,
        layout: bool = False,
        recompose: bool = False,
    ) -> Self:
        """As Textual's, but a new text in the border repaints only the border's two rows."""
        if self._entitling and not regions:
            width, height = self.outer_size
            regions = (Region(-1, -1, width, 1), Region(-1, height - 2, width, 1))
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def copied(self) -> str:
        """The text that `y` copies from this pane: its lines."""
        return "\n".join(text.rstrip() for text in self.shown_lines)


class VersionPane(Pane):
    """A pane about the selected version; it keeps its lines until the next record is read."""

    def show_scene(self, scene: Scene) -> None:
        """Draw a new scene once its records have been read."""
        if self.scene is None or not scene.reading:
            super().show_scene(scene)
