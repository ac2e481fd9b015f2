"""A form with a field on each line; enter on the last one sends it."""

from collections.abc import Mapping
from typing import ClassVar, Generic, NamedTuple, TypeVar

from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from workbench.errors import WorkbenchError
from workbench.session.records import Budget
from workbench.tui.draw import line
from workbench.tui.look import dressed
from workbench.tui.panes.fields import Choice, Field
from workbench.tui.scene import Scene

Result = TypeVar("Result")


class Line(NamedTuple):
    """One field."""

    label: str
    name: str
    words: tuple[str, ...] = ()
    """Words to choose from; empty for a text field."""
    value: str = ""
    """Initial text of a text field."""


def limit_lines(budget: Budget) -> tuple[Line, ...]:
    """The fields of a budget, filled with its limits."""
    amounts = (
        ("Steps", "steps", budget.steps),
        ("GPU seconds", "gpu", budget.gpu_seconds),
        ("Wall seconds", "wall", budget.wall_seconds),
        ("Dollars", "usd", budget.usd),
    )
    lines = [
        Line(label, name, value="" if amount is None else f"{amount:g}")
        for label, name, amount in amounts
    ]
    return (*lines, Line("Goal", "goal", value=budget.goal or ""))


LIMITS_SAY: Mapping[str, str] = {
    "steps": "after so many gated steps the run ends",
    "gpu": "seconds of GPU time",
    "wall": "seconds of work, waiting for you not counted",
    "usd": "dollars for a model",
    "goal": "the run ends there: 1.5x against the seed, or a time like 900us",
}


class Form(ModalScreen[Result | None], Generic[Result]):
    """Base of forms: a subclass defines `lines` and `send`; escape answers None."""

    heading: ClassVar[str]
    says: ClassVar[Mapping[str, str]]
    """Explanation of each field, by its name."""
    VERTICAL_BREAKPOINTS = [(0, "-low"), (20, "-high")]  # noqa: RUF012 -- as Textual declares it
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", show=False),
        # With priority over the focused field, so that keys typed after them reach the next field.
        Binding("tab,down", "app.focus_next", "Next field", show=False, priority=True),
        Binding("shift+tab,up", "app.focus_previous", "Field before", show=False, priority=True),
        Binding("enter", "on", "Next field", show=False, priority=True),
    ]

    def __init__(self, scene: Scene) -> None:
        super().__init__()
        self.look = scene.look
        self._sending = False

    def lines(self) -> tuple[Line, ...]:
        """The fields from top to bottom."""
        raise NotImplementedError

    async def send(self) -> Result:
        """Use the values and return the answer. Raises WorkbenchError or OSError for bad values."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        """Create the fields, the explanation below them, and the keys in the border."""
        with Vertical(classes="box form") as box:
            for one in self.lines():
                inner: Input | Choice
                if one.words:
                    inner = Choice(one.words, self.look)
                else:
                    inner = Input(value=one.value, select_on_focus=False)
                inner.id = one.name
                yield Field(one.label, inner, self.look)
            yield Static(id="hint")
        box.border_title = dressed(line(self.heading), self.look)
        keys = "tab next   enter on the last line starts   esc back"
        box.border_subtitle = dressed(line((keys, self.look.muted)), self.look)

    def on_mount(self) -> None:
        """Focus the first field, and stop cursors from blinking."""
        for field in self.query(Input):
            field.cursor_blink = False
        self.query_one(f"#{self.lines()[0].name}").focus()

    def on_descendant_focus(self) -> None:
        """Explain the focused field."""
        name = (self.focused.id or "") if self.focused is not None else ""
        self.tell(self.says.get(name, ""), self.look.muted)

    def tell(self, text: str, style: str) -> None:
        """Show a text below the fields."""
        says = Content.styled(text, style)
        self.query_one("#hint", Static).update(dressed(says, self.look))

    def text(self, name: str) -> str:
        """The text of a field, stripped."""
        return self.query_one(f"#{name}", Input).value.strip()

    def word(self, name: str) -> str:
        """The chosen word of a field."""
        return self.query_one(f"#{name}", Choice).value

    def budget(self) -> Budget:
        """The limits from the fields. Raises WorkbenchError for an invalid amount."""
        steps = self._amount("steps")
        if steps is not None and not steps.is_integer():
            says = f"steps: {steps:g} is not a whole number"
            raise WorkbenchError(says, todo="blank for no limit")
        return Budget(
            steps=None if steps is None else int(steps),
            gpu_seconds=self._amount("gpu"),
            wall_seconds=self._amount("wall"),
            usd=self._amount("usd"),
            goal=self.text("goal") or None,
        )

    def _amount(self, name: str) -> float | None:
        text = self.text(name)
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value < float("inf"):
            raise WorkbenchError(f"{name}: {text!r} is not an amount", todo="blank for no limit")
        return value

    def action_on(self) -> None:
        """Go to the next field; on the last one leave enter to the field itself."""
        if self.focused is not None and self.focused.id == self.lines()[-1].name:
            raise SkipAction
        self.focus_next()

    def on_input_submitted(self) -> None:
        """Send the form, on enter in the last field."""
        if not self._sending:
            self._sending = True
            self.run_worker(self._send(), group="send")

    async def _send(self) -> None:
        self.tell("one moment…", self.look.muted)
        try:
            answer = await self.send()
        except (WorkbenchError, OSError) as fault:
            self._sending = False
            self.tell(" ".join(str(fault).split()), f"bold {self.look.bad}")
            return
        self.dismiss(answer)

    def action_back(self) -> None:
        """Close the form without an answer."""
        self.dismiss(None)
