"""Starts a run without a flag to know: problem, kernel, device, limits, who proposes."""

import asyncio
from pathlib import Path
from typing import ClassVar, get_args

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from workbench.engine.create import RunRequest, create_session
from workbench.errors import WorkbenchError
from workbench.kernels.target import TARGETS
from workbench.problems.load import shipped_problems
from workbench.session.records import Budget, Mode, Proposer
from workbench.tui.draw import line
from workbench.tui.look import dressed
from workbench.tui.panes.fields import Choice, Field
from workbench.tui.scene import Scene

_FILE = "a file of yours"
_NUMBERS = ("steps", "gpu", "wall", "usd")
_SAYS = {
    "problem": "left and right choose; a letter goes to the next name that begins with it",
    "file": "a KernelBench-form file: Model, get_inputs, get_init_inputs",
    "kernel": "start from a candidate of yours, a file with ModelNew; blank: the shipped seed",
    "device": "auto takes an idle GPU, else the CPU, where speed is modeled and says so",
    "target": "what the CPU compiles and models for; a GPU is its own target",
    "proposer": "skills: edits from cards, no cost; llm: a model; both: a model after the edits",
    "mode": "review: you decide each step; manual: you start it too; auto: the gate decides",
    "steps": "after so many gated steps the run ends; blank: no limit",
    "gpu": "seconds of GPU time; blank: no limit",
    "wall": "seconds of work, waiting for you not counted; blank: no limit",
    "usd": "dollars for a model; blank: no limit",
    "goal": "the run ends there: 1.5x against the seed, or a time like 900us; blank: none",
    "name": "of the session; blank: the problem's name and a number",
}


class NewRun(ModalScreen[Path | None]):
    """Answers with the folder of the session that was made."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", show=False),
        Binding("down", "app.focus_next", "Next field", show=False),
        Binding("up", "app.focus_previous", "Field before", show=False),
    ]

    def __init__(self, scene: Scene, folder: Path) -> None:
        super().__init__()
        self._look = scene.look
        self._folder = folder
        self._making = False

    def compose(self) -> ComposeResult:
        """A field a line, what it is for, and the start."""
        texts = {"steps": "20"}
        with Vertical(classes="box form") as box:
            for label, name, words in self._fields():
                inner: Input | Choice
                if words:
                    inner = Choice(words, self._look)
                else:
                    inner = Input(value=texts.get(name, ""), select_on_focus=False)
                inner.id = name
                yield Field(label, inner, self._look)
            yield Static(id="hint")
        box.border_title = dressed(line("New run"), self._look)
        keys = "tab next   enter on the last line starts   esc back"
        box.border_subtitle = dressed(line((keys, self._look.muted)), self._look)

    def _fields(self) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
        """Label, id, and the words to choose from; none for a text."""
        targets = ("sm90", *(name for name in TARGETS if name != "sm90"))
        return (
            ("Problem", "problem", (*shipped_problems(), _FILE)),
            ("or a file", "file", ()),
            ("Kernel", "kernel", ()),
            ("Device", "device", ("auto", "cpu", *(f"cuda:{index}" for index in range(8)))),
            ("Target", "target", ("its own", *targets)),
            ("Proposer", "proposer", get_args(Proposer)),
            ("Mode", "mode", (Mode.REVIEW.value, Mode.MANUAL.value, Mode.AUTO.value)),
            ("Steps", "steps", ()),
            ("GPU seconds", "gpu", ()),
            ("Wall seconds", "wall", ()),
            ("Dollars", "usd", ()),
            ("Goal", "goal", ()),
            ("Name", "name", ()),
        )

    def on_mount(self) -> None:
        """The first field has the focus; no cursor blinks."""
        for field in self.query(Input):
            field.cursor_blink = False
        self.query_one("#problem").focus()

    def on_descendant_focus(self) -> None:
        """Say what the field is for."""
        name = (self.focused.id or "") if self.focused is not None else ""
        self._say(_SAYS.get(name, ""), self._look.muted)

    def _say(self, text: str, style: str) -> None:
        says = Content.styled(text, style)
        self.query_one("#hint", Static).update(dressed(says, self._look))

    def _text(self, name: str) -> str:
        return self.query_one(f"#{name}", Input).value.strip()

    def _word(self, name: str) -> str:
        return self.query_one(f"#{name}", Choice).value

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter goes on; on the last line it starts the run."""
        if event.input.id != "name":
            self.focus_next()
        elif not self._making:
            self._making = True
            self.run_worker(self._make(), group="make")

    async def _make(self) -> None:
        self._say("making the session…", self._look.muted)
        try:
            request = self._request()
            path = await asyncio.to_thread(create_session, request)
        except (WorkbenchError, OSError) as fault:
            self._making = False
            self._say(str(fault), f"bold {self._look.bad}")
            return
        self.dismiss(path)

    def _request(self) -> RunRequest:
        """What was filled in. Raises WorkbenchError for what cannot be used."""
        file, problem = self._text("file"), self._word("problem")
        if problem == _FILE and not file:
            raise WorkbenchError("no problem is chosen", todo="name a file in the second line")
        steps, gpu, wall, usd = (self._number(name) for name in _NUMBERS)
        if steps is not None and not steps.is_integer():
            raise WorkbenchError("steps: a whole number is wanted")
        kernel, target = self._text("kernel"), self._word("target")
        return RunRequest(
            problem=str(Path(file).expanduser()) if file else problem,
            kernel=Path(kernel).expanduser() if kernel else None,
            mode=Mode(self._word("mode")),
            device=self._word("device"),
            target="" if target == "its own" else target,
            budget=Budget(
                steps=None if steps is None else int(steps),
                gpu_seconds=gpu,
                wall_seconds=wall,
                usd=usd,
                goal=self._text("goal") or None,
            ),
            proposer=self._word("proposer"),
            name=self._text("name"),
            sessions=self._folder,
        )

    def _number(self, name: str) -> float | None:
        text = self._text(name)
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value < float("inf"):
            raise WorkbenchError(f"{name}: {text!r} is no amount", todo="blank for no limit")
        return value

    def action_back(self) -> None:
        """Nothing is made."""
        self.dismiss(None)
