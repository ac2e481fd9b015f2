"""Progress of a run in the foreground: one line an event, with elapsed time and budget left."""

import time

from workbench.cli import emit
from workbench.cli.say import note
from workbench.engine import events as ev
from workbench.engine.budget import NO_LIMIT, left
from workbench.engine.telling import tell
from workbench.errors import WorkbenchError
from workbench.session.records import Budget, Cost


class Progress:
    """Prints events as they come: text on stderr, or the events themselves as JSON on stdout."""

    def __init__(self, *, json: bool) -> None:
        self._json = json
        self._unheard = False
        self._began = time.monotonic()
        self._budget = Budget()
        self._steps = 0
        self._spent = Cost()

    def show(self, event: ev.AnyEvent) -> None:
        """Print one event, if it is news. A reader that left, or a full disk, ends no run."""
        if self._unheard:
            return
        try:
            self._print(event)
        except (OSError, WorkbenchError, emit.ReaderLeft):
            self._unheard = True

    def _print(self, event: ev.AnyEvent) -> None:
        if self._json:
            if not isinstance(event, ev.StageProgress | ev.ModelSaid):
                emit.json(event)
            return
        if isinstance(event, ev.RunStarted):
            self._budget = event.budget
        elif isinstance(event, ev.BudgetSpent):
            self._steps, self._spent = event.steps, event.cost
        elif isinstance(event, ev.ModelAnswered):
            self._spent = self._spent.plus(Cost(usd=event.usd or 0.0))
        line = tell(event)
        if line is not None:
            elapsed = time.monotonic() - self._began
            budget = left(self._budget, self._steps, self._spent)
            rest = f"left {budget}" if budget != NO_LIMIT else budget
            note(f"[{elapsed:6.1f} s, {rest}] {line.says}")
