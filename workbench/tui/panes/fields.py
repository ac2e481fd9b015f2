"""Fields of a form: a label with a text to type, or with a choice of words."""

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static

from workbench.tui.look import Look, dressed

LABEL = 14


class Choice(Static, can_focus=True):
    """A choice of words by left and right, or by a word's first letter."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "turn(-1)", "Before", show=False),
        Binding("right,space", "turn(1)", "Next", show=False),
    ]

    class Turned(Message):
        """Another word was chosen."""

    def __init__(self, words: tuple[str, ...], look: Look) -> None:
        super().__init__()
        self._words = words
        self._look = look
        self._at = 0

    @property
    def value(self) -> str:
        """The chosen word."""
        return self._words[self._at]

    def on_mount(self) -> None:
        """Show the first word."""
        self._redraw()

    def _redraw(self) -> None:
        place = f"  {self._at + 1} of {len(self._words)}" if len(self._words) > 3 else ""
        text = Content.assemble(
            ("< ", self._look.accent), (self.value, "bold"), (" >", self._look.accent),
            (place, self._look.muted),
        )  # fmt: skip
        self.update(dressed(text, self._look))

    def action_turn(self, step: int) -> None:
        """Choose the next or previous word, cyclically."""
        self._to((self._at + step) % len(self._words))

    def _to(self, index: int) -> None:
        self._at = index
        self._redraw()
        self.post_message(self.Turned())

    def on_key(self, event: events.Key) -> None:
        """Choose the next word that begins with the typed letter."""
        order = [*range(self._at + 1, len(self._words)), *range(self._at + 1)]
        letter = event.character
        for index in order:
            if letter and letter.isalnum() and self._words[index].lower().startswith(letter):
                event.stop()
                self._to(index)
                return


class Field(Horizontal):
    """A label with an input or a choice beside it."""

    def __init__(self, label: str, inner: Input | Choice, look: Look) -> None:
        super().__init__(classes="field")
        self._label = label
        self._inner: Widget = inner
        self._look = look

    def compose(self) -> ComposeResult:
        """Create both on one line."""
        label = Content.styled(f"{self._label:<{LABEL}}", self._look.muted)
        yield Static(dressed(label, self._look), classes="label")
        yield self._inner
