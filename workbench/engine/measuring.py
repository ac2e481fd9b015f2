"""The gate's timer for a session or a single verdict, where there is a GPU to time on."""

from collections.abc import Callable

from msgspec import Struct

from workbench.gate.candidate import Candidate
from workbench.gate.counters import NcuProfiler
from workbench.gate.judge import GateSettings
from workbench.gate.problem.records import ProblemReport
from workbench.gate.timing.stage import GpuTimer, TimerSettings
from workbench.isolation.records import Flavor
from workbench.isolation.workshop import Workshop
from workbench.measure.pairs import PairRule
from workbench.measure.records import Speed
from workbench.problems.records import Problem

NEVER_REACHED = 1e3
"""A threshold under which every pair lies: one run, without a second that would confirm a gain."""


def flavors(device_index: int | None) -> tuple[Flavor, ...]:
    """Workers that the gate will ask for, to be warmed together."""
    everywhere = (Flavor.REFERENCE, Flavor.COMPILE, Flavor.INTERPRET)
    return everywhere if device_index is None else (*everywhere, Flavor.CUDA)


class Question(Struct, frozen=True, kw_only=True):
    """What the timer of a step with a parent is asked."""

    decides: bool = True
    """False: the candidate may be as slow as it likes."""
    confirms: bool = True
    found: Speed | None = None
    """One of a step's two runs: `TimerSettings`."""
    pairs: int = 0
    """So many are gathered, whatever they say, and no gain is found: they rank. 0: until they
    decide."""


_WHOLE = Question()


def timer_of(
    problem: Problem,
    facts: Callable[[], ProblemReport],
    settings: GateSettings,
    workshop: Workshop,
    *,
    seed_kernel: Candidate | None = None,
    ask: Question = _WHOLE,
) -> GpuTimer | None:
    """A timer on the GPU that `settings` name; None on the CPU, where times are modeled."""
    if settings.device_index is None:
        return None
    few = PairRule(threshold=NEVER_REACHED, first=ask.pairs, cap=ask.pairs)
    return GpuTimer(
        problem,
        facts,
        TimerSettings(
            target=settings.target,
            device=settings.device,
            device_index=settings.device_index,
            rule=few if ask.pairs else PairRule(threshold=settings.threshold),
            decides=ask.decides,
            confirms=ask.confirms,
            found=ask.found,
        ),
        workshop,
        seed_kernel=seed_kernel,
    )


def profiler_of(problem: Problem, settings: GateSettings) -> NcuProfiler | None:
    """Reads the counters of the GPU that `settings` name; None on the CPU, which has none."""
    if settings.device_index is None:
        return None
    return NcuProfiler(problem, settings.target, settings.device_index)
