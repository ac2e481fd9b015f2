"""One run of a timing on the GPU: workers made beside others, then warm-up and pairs alone.

What takes seconds and disturbs nobody's pairs (processes, contexts, compiling, the first answers)
is done while the GPU is shared. Only from the warm-up to the last pair is it held alone, and only
that is counted as GPU-seconds.
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

WAITING = "waiting for the GPU"
"""Name of the seconds that others had it, among the parts of the stage."""
_PATIENCE = 4
"""Clocks that disagree without convicting anybody are asked until there are so many times the first
look's pairs (ours): a burst of work on the host is outvoted by then, and a lasting one is not."""

_TUNES = re.compile(r"\bautotune\b")


class HoldGpu(Protocol):
    """Has the GPU for oneself, or `shared` with others who time nothing. Raises GpuBusy."""

    def __call__(self, waits: Waits, *, shared: bool = False) -> AbstractContextManager[Watch]:
        """Hold the GPU while the body runs."""


class Played(Struct, frozen=True, kw_only=True):
    """One run that came to its end."""

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
def prepared(
    spec: SidesSpec,
    opens: OpenSides,
    workshop: Workshop,
    hold: HoldGpu,
    waits: Waits,
    parts: Parts | None = None,
) -> Iterator[Sides]:
    """The sides with everything built and called once, beside others on the GPU.

    Where a first call may choose its configuration by the clock, it is left for the warm-up, which
    has the GPU alone. Raises SideFault, GpuBusy; WorkbenchError for no worker.
    """
    parts = parts or Parts()
    with ExitStack() as stack:
        with had(hold, waits, parts, shared=True):
            with parts.of("opening the sides"):
                sides = stack.enter_context(opens(spec, workshop))
            if not any(_TUNES.search(source) for _, source in spec.candidates):
                sides.fresh([side.name for side in sides.sides])
                with parts.of("first calls"):
                    together([partial(side.turn, bare=False) for side in sides.sides])
        try:
            yield sides
        finally:
            for who, spent in sides.spent().items():
                parts.add_calls(who, spent)


@contextmanager
def had(hold: HoldGpu, waits: Waits, parts: Parts, *, shared: bool = False) -> Iterator[Watch]:
    """The GPU as `hold` has it, with what it was waited for among the parts. Raises GpuBusy."""
    with ExitStack() as stack:
        with parts.of(WAITING):
            watch = stack.enter_context(hold(waits, shared=shared))
        yield watch


def patient_until(rule: PairRule, *, paired: bool) -> int:
    """Pairs at which clocks that still disagree end a run."""
    most = _PATIENCE * rule.first
    return min(most, rule.cap) if paired else most


def gather(run: PairedRun, rule: PairRule, *, incumbent: str, candidate: str, look: Look) -> Answer:
    """Pairs, look by look, until they decide or there are enough. UNDECIDED: they cannot tell."""
    wanted = next_look(0, rule)
    while wanted is not None:
        run.extend(wanted)
        if look(run):
            summary = pairs.summarize(run.samples[incumbent], run.samples[candidate], rule)
            if (found := pairs.answer(summary, rule)) is not Answer.UNDECIDED:
                return found
        wanted = next_look(wanted, rule)
    return Answer.UNDECIDED
