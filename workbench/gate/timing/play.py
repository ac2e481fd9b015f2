"""One run of a timing on the GPU: workers made beside others, then warm-up and pairs alone.

What takes seconds and disturbs nobody's pairs (processes, contexts, compiling, the first answers)
is done while the GPU is shared. Only from the warm-up to the last pair is it held alone, and only
that is counted as GPU-seconds.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Protocol

from msgspec import Struct

from workbench.gate.timing.paired_run import PairedRun
from workbench.gate.timing.sides import CANDIDATE, Sides, SidesSpec
from workbench.isolation.workshop import Workshop
from workbench.measure import pairs
from workbench.measure.gpuwatch import Watch
from workbench.measure.pairs import Answer, PairRule, PairSummary, next_look

OpenSides = Callable[[SidesSpec, Workshop], AbstractContextManager[Sides]]
Waits = Callable[[], None]
"""Called once if others have the GPU first."""
Look = Callable[[PairedRun], None]
"""Looks at a run between two stretches of pairs, and raises what ends it."""

_TUNES = re.compile(r"\bautotune\b")


class HoldGpu(Protocol):
    """Has the GPU for oneself, or `shared` with others who time nothing. Raises GpuBusy."""

    def __call__(self, waits: Waits, *, shared: bool = False) -> AbstractContextManager[Watch]:
        """For as long as the body runs."""


class Played(Struct, frozen=True, kw_only=True):
    """One run that came to its end."""

    run: PairedRun
    rule: PairRule
    """With the cap that could be afforded."""
    rival: str
    """Name of the side that the candidate was paired with; empty when it was alone."""
    seconds: float
    """For which the GPU was held alone."""

    def summary(self, *, over: str) -> PairSummary:
        """The pairs of the candidate with another side."""
        samples = self.run.samples
        return pairs.summarize(samples[over], samples[CANDIDATE], self.rule)


@contextmanager
def prepared(
    spec: SidesSpec, opens: OpenSides, workshop: Workshop, hold: HoldGpu, waits: Waits
) -> Iterator[Sides]:
    """The sides with everything built and called once, beside others on the GPU.

    Where a first call may choose its configuration by the clock, it is left for the warm-up, which
    has the GPU alone. Raises SideFault, GpuBusy; WorkbenchError for no worker.
    """
    with ExitStack() as stack:
        with hold(waits, shared=True):
            sides = stack.enter_context(opens(spec, workshop))
            if not any(_TUNES.search(source) for _, source in spec.candidates):
                sides.fresh([side.name for side in sides.sides])
                for side in sides.sides:
                    side.turn(bare=False)
        yield sides


def gather(run: PairedRun, rule: PairRule, *, incumbent: str, candidate: str, look: Look) -> Answer:
    """Pairs, look by look, until they decide or there are enough. UNDECIDED: they cannot tell."""
    wanted = next_look(0, rule)
    while wanted is not None:
        run.extend(wanted)
        look(run)
        summary = pairs.summarize(run.samples[incumbent], run.samples[candidate], rule)
        if (found := pairs.answer(summary, rule)) is not Answer.UNDECIDED:
            return found
        wanted = next_look(wanted, rule)
    return Answer.UNDECIDED
