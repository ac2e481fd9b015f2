"""Calls in addition to the plan, on inputs that a problem's own draws do not resemble.

What is wrong there counts only where the reference has an answer; elsewhere it is a doubt, or only
reported.
"""

from typing import Protocol

from msgspec import structs

from workbench.gate.correctness.cases import (
    BESIDE,
    FAR_OUT,
    SELECTED,
    SPECIAL,
    Call,
    Case,
    Effort,
    Poison,
    TrialSettings,
)
from workbench.gate.correctness.verdicts import Wrong, crowded, gross, in_domain, special, turned
from workbench.gate.records import Finding
from workbench.kernels.records import Way


class _Trial(Protocol):
    """The trial that makes the calls."""

    settings: TrialSettings
    float_inputs: bool
    whole_inputs: bool
    selected: bool
    ways: tuple[Way, ...]
    notes: list[Finding]
    worst: float
    """Of calls whose error counts."""

    def further(self, number: int, what: str, poison: Poison) -> Call:
        """A fresh call that is not in the plan."""

    def plainly(self, call: Call) -> None:
        """Make the call and compare its outputs. Raises Wrong."""

    def placed(self, finding: Finding, call: Call) -> Finding:
        """The finding with its case, shape and seed."""


class Beside:
    """Makes the calls of one trial that are not in the plan."""

    def __init__(self, trial: _Trial, number: int) -> None:
        self._trial = trial
        self._number = number
        """Of the calls to come."""
        self._many = trial.settings.effort is Effort.ALL

    def _call(self, case: Case, what: str, poison: Poison) -> Call:
        return structs.replace(self._trial.further(self._number, what, poison), case=case)

    def strained(self) -> None:
        """Inputs that are sorted, on a large offset, growing, fading, peaked, or, for a selection,
        close. Raises Wrong.
        """
        for case in BESIDE if self._many and self._trial.float_inputs else ():
            if case in SELECTED and not self._trial.selected:
                continue
            worst = self._trial.worst
            try:
                self._trial.plainly(self._call(case, case, Poison.NAN))
            except Wrong as wrong:
                if in_domain(wrong) and (case is not Case.PEAKED or gross(wrong)):
                    raise
                self._trial.worst = worst

    def crowded(self) -> None:
        """Most of each integer input is one value, which a problem may rule out.

        Raises Wrong with a doubt.
        """
        if not (self._many and self._trial.whole_inputs):
            return
        call = self._call(Case.CROWDED, "crowded", Poison.NAN)
        try:
            self._trial.plainly(call)
        except Wrong as wrong:
            raise Wrong([self._trial.placed(crowded(wrong.findings[0]), call)]) from wrong

    def far_out(self) -> None:
        """Search for inputs that turn a branch on loaded values that never, or always, was taken.

        A kernel may be right only for inputs like those it was tried with. What is wrong only there
        may be due to values that no promise covers: Raises Wrong with a doubt.
        """
        for case in FAR_OUT if self._trial.settings.interpreted else ():
            # Of few calls a comparison says little: lanes are few, and honest guards many.
            before = [way for way in self._trial.ways if way.branch or self._many]
            if not before:
                return
            call, worst = self._call(case, "far out", Poison.NAN), self._trial.worst
            try:
                self._trial.plainly(call)
            except Wrong as wrong:
                now = [way for way in before if way not in self._trial.ways]
                if now:
                    raise Wrong([self._trial.placed(turned(now[0], wrong), call)]) from wrong
                self._trial.worst = worst

    def specials(self) -> None:
        """The effect of a NaN and of infinities among the inputs: reported, never held against a
        kernel.

        `tl.maximum` drops NaN on a GPU, which honest kernels rely on (gate protocol, section 7).
        """
        if not self._trial.float_inputs or not self._trial.settings.interpreted:
            return
        for case in SPECIAL:
            call = self._call(case, case, Poison.PATTERN)
            try:
                self._trial.plainly(call)
            except Wrong as wrong:
                self._trial.notes.append(self._trial.placed(special(wrong), call))
