"""The form for going on with a run that has reached its limits or its goal."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from workbench.engine.create import request_run
from workbench.tui.dialogs.form import LIMITS_SAY, Form, Line, limit_lines
from workbench.tui.scene import Scene


class More(Form[Path]):
    """Answers with the session's folder once the new limits are in its settings."""

    heading = "Go on with larger limits"
    says: ClassVar[Mapping[str, str]] = {
        name: f"{text}, counted from the first run; blank: as before"
        for name, text in {**LIMITS_SAY, "goal": LIMITS_SAY["goal"] + ", or none"}.items()
    }

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._snapshot = scene.snapshot

    def lines(self) -> tuple[Line, ...]:
        """The present limits."""
        return limit_lines(self._snapshot.budget)

    async def send(self) -> Path:
        """Write the new limits to the session; a blank limit stays as it was."""
        path = Path(self._snapshot.path)
        await asyncio.to_thread(request_run, path, mode=None, budget=self.budget())
        return path
