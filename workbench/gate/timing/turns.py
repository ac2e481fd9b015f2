"""One turn of a side on the GPU: what was read, and whether its clocks agree. Pure.

A side's readings are its own worker's claims. Three clocks have to agree (gate protocol, section
9.5): the events, the worker's wall, and the judge's own wall less what turns take that compute
nothing: in the same worker before candidate code was there, and in the reference's meanwhile. The
roofline (`measure.floor`) bounds what is left. A profiler's spans are not asked for in there: they
would be one more claim of the same process.
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
"""Ours: what a job may take beside the call where no empty turn is there to compare with, or where
the weights are put back before each call."""
JUDGE_US = 1_000.0
"""Ours: what a job may take beside the call more than an empty or a stand-in's turn."""
_FEWEST = 3
"""Turns of a kind before their median says anything (ours)."""

_MOST_AHEAD_US = 50_000.0
"""A worker that claims to have been held for longer is not believed (ours; 3 ms are asked for)."""


class Turn(Struct, frozen=True, kw_only=True):
    """One timed call."""

    reading: Reading
    judge_us: float
    """Microseconds from the question's first byte to the answer's last, by the judge's clock."""


class Empty(Struct, frozen=True, kw_only=True):
    """Turns that compute nothing, in a worker that holds no candidate's code."""

    held: tuple[Turn, ...] = ()
    bare: tuple[Turn, ...] = ()
    alike: bool = True
    """The job did the same beside the call as it does now."""

    def late(self, kind: str) -> float | None:
        """How much a worker's wall time overstates a turn of that kind; None if unknown."""
        turns = _on_device(self.held if kind == "held" else self.bare)
        if len(turns) < _FEWEST:
            return None
        return median(_SEEN[kind](turn) - turn.reading.us for turn in turns)

    def beside(self) -> float | None:
        """What the judge waits for beyond the clock's reading; None where unknown."""
        turns = _on_device((*self.held, *self.bare))
        return median(map(_unexplained, turns)) if len(turns) >= _FEWEST else None


NOTHING = Empty()


class Disagreement(Struct, frozen=True, kw_only=True):
    """How the clocks of one side contradict each other."""

    says: str
    hides: bool
    """The GPU was at work for longer than the events saw, and that is not the machine's doing."""
    seen_us: float
    """What the contradicting clock saw."""
    events_us: float


class Side(Protocol):
    """One that takes turns: a candidate, its parent, the reference."""

    @property
    def name(self) -> str:
        """What findings call it."""

    @property
    def checkable(self) -> bool:
        """Whether its outputs can be wrong."""

    @property
    def empty(self) -> Empty:
        """Its worker's turns without a call."""

    def turn(self, *, bare: bool) -> Turn:
        """One call on the present contents. Raises SideFault."""

    def check(self, *, closely: bool) -> Sequence[Finding]:
        """What is wrong with what the last call left. Raises SideFault.

        Not `closely`, outputs that are as near to eager's as right ones are let pass.
        """


class StandIn(Protocol):
    """Takes a turn that computes nothing. Raises SideFault."""

    def __call__(self, *, bare: bool) -> Turn | None:
        """The turn; None where it says nothing about the machine."""


def nobody(*, bare: bool) -> Turn | None:  # noqa: ARG001  # a stand-in's shape
    """Where there is no stand-in."""
    return None


class SideFault(Exception):
    """A side gave no answer, or a wrong one."""

    def __init__(self, side: str, finding: Finding) -> None:
        super().__init__(f"{side}: {finding.says}")
        self.side = side
        self.finding = finding


def implausible(turn: Turn) -> str:
    """Why a reading cannot be one at all; empty when it can."""
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

    `held` turns were queued behind a held GPU: what the wall saw beyond that hold is the events'
    time, or work hid from the events, on another stream or thread. In `bare` turns what the wall
    saw after the host was done is at most the events' time. Medians: one late wake-up is no lie.
    An `empty` turn shows how late this machine wakes up, and those of a stand-in, taken `beside`
    the sides', how late it did so meanwhile: what is beyond both is hidden work. That decides who
    is to blame alone: clocks that contradict each other are believed on no machine.
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
    """What the judge waited for beyond what the worker's clock explains.

    It convicts nobody: a process that is not run for a while looks the same. The median and nothing
    lower: pairs are won by work that hides in a little more than half of the turns. What is usual
    is what it was before the candidate was there or what it is for a stand-in at the same time,
    so that a host that others keep busy does not decide.
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
"""For how long the worker's wall saw the GPU at work on the call."""
