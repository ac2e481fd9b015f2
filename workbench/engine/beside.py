"""Compares a kernel with another one: is it right, and how fast is it in comparison?

The gate after compile can be asked in three ways: for correctness alone, where identity gives the
time; for the speed in one run of pairs, where it may be slower; and for its whole decision, where
it must not be slower than a floor.
"""

from collections.abc import Callable

from workbench.gate.candidate import Candidate
from workbench.gate.judge import Sitting
from workbench.gate.profile import Timer, untimed
from workbench.gate.records import GateReport, Outcome
from workbench.measure.records import Time

ANY_SPEED = 1e-6
"""A floor that every speed meets, where times are modeled."""

UNTIMED = "not timed: it does the very work of what it is held against, so it is as fast"


class Beside:
    """A kernel after policy and compile, which need no GPU. Its gate goes on at most once."""

    def __init__(
        self,
        sitting: Sitting,
        state: Candidate,
        state_time: Time | None,
        timer: Timer | None,
        completed: Callable[[GateReport], GateReport],
    ) -> None:
        """`timer` is None where times are modeled. Raises WorkbenchError when no worker starts."""
        self._sitting = sitting
        self._state = state
        self._state_time = state_time
        self._timer = timer
        self._completed = completed
        sitting.begin()
        self.report = sitting.report()
        """Report of policy and compile."""

    def judged(self) -> GateReport:
        """The report with correctness, and with the speed against the state."""
        report = self._sitting.go_on(
            parent=self._state, parent_time=self._state_time, timer=self._timer
        )
        return self._completed(report)

    def proven(self) -> GateReport:
        """The report with correctness alone."""
        return self._completed(self._sitting.go_on(timer=untimed(Outcome.PASSED, UNTIMED)))
