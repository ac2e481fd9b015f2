"""Small dialogs: one asks for a line of text, one for a yes."""

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from workbench.tui.look import Look, dressed
from workbench.tui.typeahead import unread


class Reason(ModalScreen[str | None]):
    """Asks for a line of text that is not blank; escape cancels."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "Back", show=False)]

    def __init__(
        self,
        title: str,
        hint: str,
        look: Look,
        *,
        value: str = "",
        refusal: str = "a veto needs a reason: the next step reads it",
        placeholder: str = "because…",
    ) -> None:
        """`value` is the initial text; `refusal` is shown after a blank answer.

        `placeholder` shows what such an answer looks like.
        """
        super().__init__()
        self._title = title
        self._hint = hint
        self._look = look
        self._early = value
        self._refusal = refusal
        self._placeholder = placeholder

    def compose(self) -> ComposeResult:
        """Create the input field and the hint below it."""
        with Vertical(classes="box small") as box:
            yield Input(placeholder=self._placeholder, id="reason", select_on_focus=False)
            yield Static(self._says(self._hint, self._look.muted), id="hint")
        box.border_title = dressed(Content(self._title), self._look)
        box.border_subtitle = dressed(Content("enter send   esc back"), self._look)

    def on_mount(self) -> None:
        """Put the initial text, and what was typed meanwhile, into the field."""
        field = self.query_one(Input)
        # A blinking cursor would write to an idle terminal.
        field.cursor_blink = False
        field.value, self._early = self._early, ""
        field.cursor_position = len(field.value)
        field.focus()

    def on_key(self, event: events.Key) -> None:
        """Keep for the field what is typed before it exists."""
        if event.is_printable and event.character and not isinstance(self.focused, Input):
            self._early += event.character
            event.stop()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Answer with the text, unless it is blank."""
        reason = event.value.strip()
        if reason:
            self.dismiss(reason)
        else:
            hint = self.query_one("#hint", Static)
            hint.update(self._says(self._refusal, f"bold {self._look.bad}"))

    def _says(self, text: str, style: str) -> Content:
        return dressed(Content.styled(text, style), self._look)


class Confirm(ModalScreen[bool]):
    """Asks for confirmation; only `y` is a yes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "agree", "Yes", show=False),
        Binding("n,escape,q", "dismiss(False)", "No", show=False),
    ]

    def __init__(self, title: str, says: str, look: Look) -> None:
        """`says` may have paragraphs, separated by blank lines."""
        super().__init__()
        self._title = title
        self._says = says
        self._look = look

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 -- Textual's signature
        """Ignore a yes that was typed before the question was visible."""
        return action != "agree" or not unread(self.app)

    def action_agree(self) -> None:
        """Answer yes."""
        self.dismiss(True)

    def compose(self) -> ComposeResult:
        """The question in a box."""
        with Vertical(classes="box small") as box:
            for paragraph in self._says.split("\n\n"):
                yield Static(dressed(Content(paragraph), self._look), classes="paragraph")
        box.border_title = dressed(Content(self._title), self._look)
        box.border_subtitle = dressed(Content("y yes   n no"), self._look)
