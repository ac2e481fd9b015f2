"""What `bench model` and its workers tell each other."""

from msgspec import Struct

JOB = "workbench.bench.model_job"
"""Module to preload in a workshop's forkservers."""


class Ready(Struct, frozen=True, kw_only=True):
    """Draw inputs and answer them."""

    seed: int


class Load(Struct, frozen=True, kw_only=True):
    """Build a variant, call it once and compare. Answered by `Compared`."""

    number: int
    source: str


class TimeIt(Struct, frozen=True, kw_only=True):
    """Time a variant that was loaded. Answered by `Times`."""

    number: int


class Times(Struct, frozen=True, kw_only=True):
    """What the clock said, microseconds."""

    us: tuple[float, ...]
