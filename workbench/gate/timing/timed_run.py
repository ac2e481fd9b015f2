"""The steps of one timing run: sides prepared on a shared GPU, pairs gathered on an exclusive one.

Starting processes, creating contexts, compiling and first calls take seconds and do not disturb
another run's pairs, so they share the GPU. It is held exclusively from the warm-up to the last
pair.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Protocol

from msgspec import Struct

from workbench.gate.parts import Parts
from workbench.gate.timing.paired_run import PairedRun
from workbench.gate.timing.sides import CANDIDATE, Sides, SidesSpec, together
from workbench.isolation.workshop import Workshop
from workbench.measure import pairs
from workbench.measure.gpulock import gpu_lock
from workbench.measure.gpuwatch import Watch, lock_name, watching
from workbench.measure.pairs import Answer, PairRule, PairSummary, next_look

OpenSides = Callable[[SidesSpec, Workshop], AbstractContextManager[Sides]]
Waits = Callable[[], None]
"""Called once if others have the GPU first."""
Look = Callable[[PairedRun], bool]
"""Looks at a run between two stretches: whether its pairs may decide now. Raises what ends it."""

OPENING, FIRST_CALLS = "opening the sides", "first calls"
"""The parts of the stage's seconds in which the GPU was held beside others."""
WAITING = "waiting for the GPU"
"""The part of the stage's seconds in which another process held the GPU."""
_PATIENCE = 4
"""A run whose clocks disagree goes on to this multiple of the first look's pairs (ours): by then a
burst of work on the host is outvoted, and a lasting disturbance is not."""

_TUNES = re.compile(r"\bautotune\b")


class HoldGpu(Protocol):
    """Has the GPU for oneself, or `shared` with others who time nothing. Raises GpuBusy."""

    def __call__(self, waits: Waits, *, shared: bool = False) -> AbstractContextManager[Watch]:
        """Hold the GPU while the body runs."""


class TimedRun(Struct, frozen=True, kw_only=True):
    """A run that gathered its pairs."""

    run: PairedRun
    rule: PairRule
    """The rule with the cap that could be afforded."""
    rival: str
    """Name of the side that the candidate was paired with; empty when it was alone."""
    seconds: float
    """How long the GPU was held alone."""

    def summary(self, *, over: str) -> PairSummary:
        """The pairs of the candidate with another side."""
        samples = self.run.samples
        return pairs.summarize(samples[over], samples[CANDIDATE], self.rule)


@contextmanager
def holding(device_index: int, waits: Waits, *, shared: bool = False) -> Iterator[Watch]:
    """The GPU's lock and a watch on it. Raises GpuBusy, or WorkbenchError for a bad lock file."""
    name = lock_name(device_index)
    with gpu_lock(name, shared=shared, waits=waits), watching(name) as watch:
        yield watch


@contextmanager
def prepared_sides(
    spec: SidesSpec,
    opens: OpenSides,
    workshop: Workshop,
    hold: HoldGpu,
    waits: Waits,
    parts: Parts | None = None,
) -> Iterator[Sides]:
    """The sides, built and called once, while the GPU is shared.

    A candidate that autotunes is first called in the warm-up instead, where no other process
    disturbs its measurements. Raises SideFault, GpuBusy; WorkbenchError when no worker starts.
    """
    parts = parts or Parts()
    with ExitStack() as stack:
        with gpu_held(hold, waits, parts, shared=True):
            with parts.of(OPENING):
                sides = stack.enter_context(opens(spec, workshop))
            if not any(_TUNES.search(source) for _, source in spec.candidates):
                sides.fresh([side.name for side in sides.sides])
                with parts.of(FIRST_CALLS):
                    together([partial(side.turn, bare=False) for side in sides.sides])
        try:
            yield sides
        finally:
            for who, spent in sides.spent().items():
                parts.add_calls(who, spent)


@contextmanager
def gpu_held(hold: HoldGpu, waits: Waits, parts: Parts, *, shared: bool = False) -> Iterator[Watch]:
    """The GPU, held by `hold`; the wait for it is one of the `parts`. Raises GpuBusy."""
    with ExitStack() as stack:
        with parts.of(WAITING):
            watch = stack.enter_context(hold(waits, shared=shared))
        yield watch


def patient_until(rule: PairRule, *, paired: bool) -> int:
    """Number of pairs after which a run ends if its clocks still disagree."""
    most = _PATIENCE * rule.first
    return min(most, rule.cap) if paired else most


def gather(run: PairedRun, rule: PairRule, *, incumbent: str, candidate: str, look: Look) -> Answer:
    """Add pairs, look by look, until they decide or the cap is reached (then UNDECIDED)."""
    wanted = next_look(0, rule)
    while wanted is not None:
        run.extend(wanted)
        if look(run):
            summary = pairs.summarize(run.samples[incumbent], run.samples[candidate], rule)
            if (found := pairs.answer(summary, rule)) is not Answer.UNDECIDED:
                return found
        wanted = next_look(wanted, rule)
    return Answer.UNDECIDED
