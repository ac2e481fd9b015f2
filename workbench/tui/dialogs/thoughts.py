"""Shows what a model thinks and answers, as it streams."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content

from workbench.tui.dialogs.following import Following
from workbench.tui.keys import Place, bindings
from workbench.tui.look import dressed
from workbench.tui.panes.base import Scroller
from workbench.tui.panes.talk import talk_lines
from workbench.tui.scene import Scene


class Stream(Scroller):
    """Keeps its end in view until the user scrolls up."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Place.TEXT)
    follow: bool = True

    def draw(self, scene: Scene, width: int, height: int) -> list[Content]:  # noqa: ARG002 -- all panes share one signature
        """The lines of the newest request."""
        talk = scene.snapshot.talk
        return [] if talk is None else talk_lines(talk, scene.look, width)

    def window(self, lines: list[Content], height: int) -> list[Content]:
        """The last lines, or those that the user scrolled to."""
        if self.follow:
            self.top = len(lines)
        return super().window(lines, height)

    def scroll_lines(self, step: int) -> None:
        """Scroll; reaching the end follows the stream again."""
        self.follow = step > 0 and step >= self.below
        super().scroll_lines(step)

    def action_close(self) -> None:
        """Back to the main screen."""
        self.screen.dismiss()


class Thoughts(Following):
    """The newest request to a model, live."""

    def __init__(self, scene: Scene) -> None:
        super().__init__()
        self._scene = scene
        self._stream = Stream()

    def compose(self) -> ComposeResult:
        """The stream in a box."""
        with Vertical(classes="box thoughts") as box:
            yield self._stream
        box.border_title = dressed(Content("The model"), self._scene.look)
        box.border_subtitle = dressed(Content("esc closes"), self._scene.look)

    def on_mount(self) -> None:
        """Draw the current scene."""
        self._stream.focus()
        self.show_scene(self._scene)

    def show_scene(self, scene: Scene) -> None:
        """Draw what has arrived."""
        self._stream.show_scene(scene)
