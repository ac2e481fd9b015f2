"""The form for a new run: problem, kernel, device, limits, proposer."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, get_args

from workbench.engine.create import RunRequest, create_session
from workbench.engine.devices import offered_devices
from workbench.errors import WorkbenchError
from workbench.kernels.target import TARGETS
from workbench.problems.load import shipped_problems
from workbench.session.records import Budget, Mode, Proposer
from workbench.tui.dialogs.form import LIMITS_SAY, Form, Line, limit_lines
from workbench.tui.scene import Scene

_FILE = "a file of yours"
_STEPS = 20
"""Step limit that the form suggests (ours)."""


class NewRun(Form[Path]):
    """Answers with the folder of the new session."""

    heading = "New run"
    says: ClassVar[Mapping[str, str]] = {
        **{name: f"{text}; blank: no limit" for name, text in LIMITS_SAY.items()},
        "problem": "left and right choose; a letter goes to the next name that begins with it",
        "file": "a KernelBench-form file: Model, get_inputs, get_init_inputs",
        "kernel": "start from a candidate of yours, a file with ModelNew; blank: the shipped seed",
        "device": "auto takes an idle GPU, else the CPU, where speed is modeled and says so",
        "target": "what the CPU compiles and models for; a GPU is its own target",
        "proposer": "skills: edits from cards, free; llm: a model; both: a model after the edits",
        "mode": "review: you decide each step; manual: you start it too; auto: the gate decides",
        "name": "of the session; blank: the problem's name and a number",
    }

    def __init__(self, scene: Scene, folder: Path) -> None:
        super().__init__(scene)
        self._folder = folder

    def lines(self) -> tuple[Line, ...]:
        """The fields: problem, kernel, device, mode, limits, name."""
        targets = ("sm90", *(name for name in TARGETS if name != "sm90"))
        return (
            Line("Problem", "problem", (*shipped_problems(), _FILE)),
            Line("or a file", "file"),
            Line("Kernel", "kernel"),
            Line("Device", "device", offered_devices()),
            Line("Target", "target", ("its own", *targets)),
            Line("Proposer", "proposer", get_args(Proposer)),
            Line("Mode", "mode", (Mode.REVIEW.value, Mode.MANUAL.value, Mode.AUTO.value)),
            *limit_lines(Budget(steps=_STEPS)),
            Line("Name", "name"),
        )

    async def send(self) -> Path:
        """Create the session."""
        return await asyncio.to_thread(create_session, self._request())

    def _request(self) -> RunRequest:
        """The request from the fields. Raises WorkbenchError for values that cannot be used."""
        file, problem = self.text("file"), self.word("problem")
        if problem == _FILE and not file:
            raise WorkbenchError("no problem is chosen", todo="name a file in the second line")
        kernel, target = self.text("kernel"), self.word("target")
        return RunRequest(
            problem=str(Path(file).expanduser()) if file else problem,
            kernel=Path(kernel).expanduser() if kernel else None,
            mode=Mode(self.word("mode")),
            device=self.word("device"),
            target="" if target == "its own" else target,
            budget=self.budget(),
            proposer=self.word("proposer"),
            name=self.text("name"),
            sessions=self._folder,
        )
