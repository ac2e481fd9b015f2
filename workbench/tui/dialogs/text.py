"""A box of scrolling text, and its usual contents: the keys and the log of events."""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from workbench.engine.view import LogLine, Snapshot, Version
from workbench.session.records import Answer
from workbench.tui.draw import line, wrapped
from workbench.tui.keys import Key, Place, bindings, keys_of, shown
from workbench.tui.look import dressed
from workbench.tui.panes.base import Scroller
from workbench.tui.panes.version import versus_seed, word
from workbench.tui.scene import Scene

Draw = Callable[[Scene, int], list[Content]]


class Text(Scroller):
    """The scrolling text, which has the focus."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Place.TEXT)

    def __init__(self, draw: Draw) -> None:
        super().__init__()
        self._text_of = draw

    def draw(self, scene: Scene, width: int, height: int) -> list[Content]:  # noqa: ARG002 -- all panes share one signature
        """The lines of the text."""
        return self._text_of(scene, width)

    def redraw(self) -> None:
        """Draw, and show how many lines are below the view."""
        super().redraw()
        if isinstance(self.screen, TextBox):
            self.screen.tell_below(self.below)

    def action_close(self) -> None:
        """Close the box."""
        self.screen.dismiss()


class TextBox(ModalScreen[None]):
    """Shows a text over the screen."""

    def __init__(
        self, title: str, foot: str, draw: Draw, scene: Scene, *, end: bool = False
    ) -> None:
        """`end` opens it at its last line."""
        super().__init__()
        self._title = title
        self._foot = foot
        self._text = Text(draw)
        self._scene = scene
        self._end = end

    def compose(self) -> ComposeResult:
        """The text in a box."""
        with Vertical(classes="box text") as box:
            yield self._text
        box.border_title = dressed(Content(self._title), self._scene.look)
        self._box = box
        self.tell_below(0)

    def tell_below(self, count: int) -> None:
        """Show in the border how many lines are below the view, and then fewer hints."""
        foot = f"{count} more below   {self._foot.partition('   ')[0]}" if count else self._foot
        self._box.border_subtitle = dressed(Content(foot), self._scene.look)

    def on_mount(self) -> None:
        """Fill the box before it is laid out."""
        self._text.show_scene(self._scene)
        self._text.refresh(layout=True)
        self._text.focus()
        if self._end:
            self.call_after_refresh(self._text.action_last)


def help_lines(table: Sequence[Key], places: tuple[Place, ...]) -> Draw:
    """The keys that work in these places, by group; adjacent ones with equal texts share a row."""

    def draw(scene: Scene, width: int) -> list[Content]:
        look = scene.look
        lines = []
        for group, keys in groupby(keys_of(table, *places), key=lambda key: key.group):
            for index, (says, alike) in enumerate(groupby(keys, key=lambda key: key.says)):
                names = " ".join(shown(key) for key in alike)
                head = [
                    (f"{'' if index else group:<8}", look.muted),
                    (f"{names:<15}", f"bold {look.accent}"),
                ]
                for text in wrapped(says, max(8, width - 23)):
                    lines.append(line(*head, text))
                    head = [(" " * 23, "")]
        return lines

    return draw


def log_lines(snapshot: Snapshot) -> Draw:
    """The time and sentence of each event, wrapped.

    A bundle or a lineage has no log of events; the versions are listed instead.
    """
    if snapshot.versions and not snapshot.log:
        return _commit_lines(snapshot.versions)
    return _event_lines(snapshot.log)


def _commit_lines(versions: tuple[Version, ...]) -> Draw:
    """A line for each version, oldest first."""

    def draw(scene: Scene, width: int) -> list[Content]:
        look = scene.look
        says = "No log of events came with this session; its commits say:"
        lines = [line((text, look.muted)) for text in wrapped(says, width - 1)]
        for version in versions:
            number = f"v{version.number}"
            after = f"{number} from v{version.parent}" if version.parent is not None else number
            told = word(version).long or str(version.answer)
            if version.answer is Answer.ACCEPTED and versus_seed(version) != "-":
                told += f", {versus_seed(version)} the seed"
            text = f"{version.title}: {told}"
            for index, part in enumerate(wrapped(text, width - 15)):
                lines.append(line((f"{'' if index else after:<14}", look.faint), part))
        return lines

    return draw


def _event_lines(log: Sequence[LogLine]) -> Draw:
    """A line for each event, with its time of day."""

    def draw(scene: Scene, width: int) -> list[Content]:
        look = scene.look
        styles = {"error": f"bold {look.bad}", "warning": look.warn}
        lines = []
        for entry in log:
            time = entry.at[11:19]
            for index, text in enumerate(wrapped(entry.says, width - 10) or [""]):
                lead = time if index == 0 else ""
                lines.append(line((f"{lead:<9} ", look.faint), (text, styles.get(entry.level, ""))))
        return lines or [line(("nothing has happened yet", look.faint))]

    return draw
