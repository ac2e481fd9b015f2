"""Where and how strictly is measured."""

from msgspec import Struct

from workbench.measure.pairs import PairRule
from workbench.measure.records import Speed


class TimerSettings(Struct, frozen=True, kw_only=True):
    """Where and how strictly is measured."""

    target: str
    """`sm90`."""
    device: str
    """Name of the GPU."""
    device_index: int | None
    """None rehearses the protocol on the CPU: its times mean nothing."""
    rule: PairRule = PairRule()
    decides: bool = True
    """False: a step may be as slow as it likes, so one run of 30 pairs tells how fast it is, and
    no second one confirms it."""
    confirms: bool = True
    """False: a step's gain is left unproven after one run, for whoever asks on to find it again."""
    found: Speed | None = None
    """A gain of an earlier first run of the judge's, which is only to be found again."""
