"""One timed call of a side: its clock readings, and whether they agree. Pure.

A side's readings are claims by its own worker. Three clocks have to agree (gate protocol, section
9.5): CUDA events, the worker's wall clock, and the judge's wall clock minus the overhead of a turn.
That overhead is measured by empty turns, in the same worker before it loads the candidate, and
meanwhile in the reference's worker. The roofline (`measure.floor`) bounds what is left. A profiler
in the worker would not help: it would be one more claim by the same process.
"""

import math
from collections.abc import Callable, Sequence
from statistics import median
from typing import Protocol

from msgspec import Struct

from workbench.gate.correctness.protocol import Reading
from workbench.gate.records import Finding

CANDIDATE, PARENT, SEED, REFERENCE = "candidate", "parent", "seed", "reference"
"""Names of sides."""

SHARE = 0.15
SLACK_US = 20.0
"""Clocks agree within 15 % and 20 us (gate protocol, section 9.5)."""
JOB_US = 20_000.0
"""Overhead allowed where there is no empty turn to compare with, or where weights are restored
before each call (ours)."""
JUDGE_US = 1_000.0
"""Overhead allowed beyond that of an empty or a stand-in's turn (ours)."""
_FEWEST = 3
"""Least turns of a kind whose median is used (ours)."""

_MOST_AHEAD_US = 50_000.0
"""A claim that the GPU was held for longer is not believed (ours; 3 ms are asked for)."""


class Turn(Struct, frozen=True, kw_only=True):
    """One timed call."""

    reading: Reading
    judge_us: float
    """Microseconds from the first byte of the request to the last of the reply, by the judge's
    clock."""


class Empty(Struct, frozen=True, kw_only=True):
    """Turns without a call, in a worker that holds no candidate's code."""

    held: tuple[Turn, ...] = ()
    bare: tuple[Turn, ...] = ()
    alike: bool = True
    """These turns had the same overhead as the timed calls have."""

    def late(self, kind: str) -> float | None:
        """How much the worker's wall clock overstates a turn of that kind, microseconds; None if
        unknown.
        """
        turns = _on_device(self.held if kind == "held" else self.bare)
        if len(turns) < _FEWEST:
            return None
        return median(_SEEN[kind](turn) - turn.reading.us for turn in turns)

    def beside(self) -> float | None:
        """What the judge waits beyond the clock's reading, microseconds; None where unknown."""
        turns = _on_device((*self.held, *self.bare))
        return median(map(_unexplained, turns)) if len(turns) >= _FEWEST else None


NOTHING = Empty()


class Disagreement(Struct, frozen=True, kw_only=True):
    """How the clocks of one side contradict each other."""

    says: str
    hides: bool
    """The GPU was busy for longer than the events saw, and the machine does not explain it."""
    seen_us: float
    """Reading of the contradicting clock."""
    events_us: float


class Side(Protocol):
    """What takes turns: a candidate, its parent, or the reference."""

    @property
    def name(self) -> str:
        """Its name in findings."""

    @property
    def checkable(self) -> bool:
        """Whether its outputs can be wrong."""

    @property
    def empty(self) -> Empty:
        """Its worker's empty turns."""

    def turn(self, *, bare: bool) -> Turn:
        """One call on the present contents. Raises SideFault."""

    def check(self, *, closely: bool) -> Sequence[Finding]:
        """What is wrong with the last call's outputs. Raises SideFault.

        Unless `closely`, outputs that pass the cheap check against eager's are accepted.
        """


class StandIn(Protocol):
    """Takes a turn that computes nothing. Raises SideFault."""

    def __call__(self, *, bare: bool) -> Turn | None:
        """The turn; None where it is not a measure of the machine's overhead."""


def nobody(*, bare: bool) -> Turn | None:  # noqa: ARG001 -- a stand-in's shape
    """The stand-in where there is none."""
    return None


class SideFault(Exception):
    """A side gave no reply, or wrong outputs."""

    def __init__(self, side: str, finding: Finding) -> None:
        super().__init__(f"{side}: {finding.says}")
        self.side = side
        self.finding = finding


def implausible(turn: Turn) -> str:
    """Why a reading is impossible; empty when it is not."""
    reading = turn.reading
    numbers = [reading.us, reading.host_us, reading.wall_us, reading.ahead_us]
    if not all(math.isfinite(number) and number >= 0 for number in numbers) or reading.us <= 0:
        return "its clock's readings are not times"
    if reading.ahead_us > _MOST_AHEAD_US:
        return f"it claims that the GPU was busy for {reading.ahead_us:.0f} us before the call"
    if reading.wall_us > turn.judge_us:
        return (
            f"it claims {reading.wall_us:.0f} us for a call that the judge waited "
            f"{turn.judge_us:.0f} us for"
        )
    return ""


def disagreement(
    held: Sequence[Turn], bare: Sequence[Turn], empty: Empty, beside: Empty = NOTHING
) -> Disagreement | None:
    """How the clocks of a side's turns contradict each other; None when they agree.

    `held` turns were queued behind a spin kernel: the time that the wall clock saw beyond the hold
    is the events' time, or it is work hidden from the events, on another stream or thread. In
    `bare` turns the wall clock after the host's part saw at most the events' time. Medians are
    compared, because single wake-ups may be late. `empty` turns measure the wake-up latency of this
    machine, and a stand-in's, taken `beside` the sides', the latency meanwhile: time beyond both is
    hidden work. This only decides who is to blame: times with contradicting clocks are never used.
    """
    for kind, turns in (("held", held), ("bare", bare)):
        seen_in = _SEEN[kind]
        known = _on_device(turns)
        if len(known) < _FEWEST:
            continue
        seen = median(map(seen_in, known))
        device = median(turn.reading.us for turn in known)
        if seen <= _allowed(device):
            continue
        late = _most(empty.late(kind), beside.late(kind))
        hides = late is not None and seen - max(0.0, late) > _allowed(device)
        says = (
            f"its events saw {device:.1f} us, but the GPU was at work for {seen:.1f} us "
            "(another stream or thread?)"
        )
        return Disagreement(says=says, hides=hides, seen_us=seen, events_us=device)
    return _beside(_on_device((*held, *bare)), empty, beside)


def _beside(turns: Sequence[Turn], empty: Empty, stood_in: Empty) -> Disagreement | None:
    """The time that the judge waited beyond what the worker's clock explains, microseconds.

    Never held against a candidate: a descheduled process looks the same. It uses the median and
    nothing lower, because hiding work in just over half of the turns is enough to win. Usual is the
    overhead before the candidate was loaded, or a stand-in's at the same time, so that load on the
    host does not decide.
    """
    if len(turns) < _FEWEST:
        return None
    device = median(turn.reading.us for turn in turns)
    waited = median(map(_unexplained, turns))
    usual = _most(empty.beside(), stood_in.beside()) if empty.alike else None
    limit = JOB_US if usual is None else usual + SHARE * device + JUDGE_US
    if waited <= limit:
        return None
    says = (
        f"the judge waited {waited / 1e3:.1f} ms longer than its worker's clock explains "
        f"({limit / 1e3:.1f} ms are usual)"
    )
    return Disagreement(says=says, hides=False, seen_us=waited, events_us=device)


def _most(*known: float | None) -> float | None:
    return max((one for one in known if one is not None), default=None)


def _on_device(turns: Sequence[Turn]) -> list[Turn]:
    return [turn for turn in turns if turn.reading.device_us is not None]


def _allowed(us: float) -> float:
    return (1 + SHARE) * us + SLACK_US


def _unexplained(turn: Turn) -> float:
    return turn.judge_us - turn.reading.wall_us - turn.reading.ahead_us


_SEEN: dict[str, Callable[[Turn], float]] = {
    "held": lambda turn: turn.reading.wall_us - turn.reading.ahead_us,
    "bare": lambda turn: turn.reading.wall_us - turn.reading.host_us,
}
"""For how long the worker's wall clock saw the GPU busy with the call, microseconds."""
