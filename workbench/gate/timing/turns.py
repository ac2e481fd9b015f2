"""One turn of a side on the GPU: what was read, and whether its clocks agree. Pure.

A side's readings are its own worker's claims. They are held against each other and against the
judge's wall clock; the roofline (`measure.floor`) bounds what is left.
"""

import math
from collections.abc import Sequence
from statistics import median
from typing import Protocol

from msgspec import Struct

from workbench.gate.correctness.protocol import Reading
from workbench.gate.records import Finding

SHARE = 0.15
SLACK_US = 20.0
"""Clocks agree within 15 % and 20 us (gate protocol, section 9.5)."""
JOB_US = 20_000.0
"""Ours: what a job may take beside the call, for its messages, weights and dirty memory."""

_MOST_AHEAD_US = 50_000.0
"""A worker that claims to have been held for longer is not believed (ours; 3 ms are asked for)."""


class Turn(Struct, frozen=True, kw_only=True):
    """One timed call."""

    reading: Reading
    judge_us: float
    """From the question to the answer, on the judge's own clock."""


class Side(Protocol):
    """One that takes turns: a candidate, its parent, the reference."""

    @property
    def name(self) -> str:
        """What findings call it."""

    @property
    def checkable(self) -> bool:
        """Whether its outputs can be wrong."""

    def turn(self, *, bare: bool) -> Turn:
        """One call on the present contents. Raises SideFault."""

    def check(self) -> Sequence[Finding]:
        """What is wrong with what the last call left. Raises SideFault."""


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
        return "its clock's readings are no times"
    if reading.ahead_us > _MOST_AHEAD_US:
        return f"it claims that the GPU was busy for {reading.ahead_us:.0f} us before the call"
    if reading.wall_us > turn.judge_us:
        return (
            f"it claims {reading.wall_us:.0f} us for a call that the judge waited "
            f"{turn.judge_us:.0f} us for"
        )
    return ""


def disagreement(held: Sequence[Turn], bare: Sequence[Turn]) -> str:
    """How the clocks of a side's turns contradict each other; empty when they agree.

    `held` turns were queued behind a held GPU: what the wall saw beyond that hold is the events'
    time, or work hid from the events, on another stream or thread. In `bare` turns what the wall
    saw after the host was done is at most the events' time. Medians: one late wake-up is no lie.
    """
    for kind, turns in (("held", held), ("bare", bare)):
        known = [(t.reading, t.reading.device_us) for t in turns if t.reading.device_us is not None]
        if not known:
            continue
        seen = median(r.wall_us - (r.ahead_us if kind == "held" else r.host_us) for r, _ in known)
        device = median(us for _, us in known)
        if seen > (1 + SHARE) * device + SLACK_US:
            return (
                f"its events saw {device:.1f} us, but the GPU was at work for {seen:.1f} us "
                "(another stream or thread?)"
            )
    turns = [t for t in (*held, *bare) if t.reading.device_us is not None]
    if not turns:
        return ""
    beside = median(t.judge_us - t.reading.wall_us - t.reading.ahead_us for t in turns)
    if beside > JOB_US:
        return f"the judge waited {beside / 1e3:.0f} ms longer than its worker's clock explains"
    return ""
