"""The settings of a timer: the GPU, the rule that decides, and how often it is asked."""

from msgspec import Struct

from workbench.measure.pairs import PairRule
from workbench.measure.records import Speed


class TimerSettings(Struct, frozen=True, kw_only=True):
    """The GPU on which a timer measures, and how it decides."""

    target: str
    """Compile target: `sm90`."""
    device: str
    """Name of the GPU."""
    device_index: int | None
    """None rehearses the protocol on the CPU, where the times mean nothing."""
    rule: PairRule = PairRule()
    decides: bool = True
    """False if a step may be slower: then a single run of 30 pairs measures its speed."""
    confirms: bool = True
    """False to stop after one run: a gain is then left unproven, to be confirmed later."""
    found: Speed | None = None
    """A gain of an earlier first run, which only has to be confirmed."""
