"""Messages between the judge of the profile stage and its reference worker.

The reference is opened and its weights are perturbed as in the correctness stage; then it makes a
ring of input sets for the sides that are timed.
"""

from msgspec import Struct

from workbench.gate.correctness.cases import Poison
from workbench.gate.correctness.nest import Nest
from workbench.gate.correctness.protocol import Made, Reading, RunCall


class Prepare(Struct, frozen=True, kw_only=True):
    """Make the ring. Answered by `Prepared`."""

    seed: int


class Prepared(Struct, frozen=True, kw_only=True):
    """The ring is made, its first set in place."""

    made: Made
    """Description of the first set, whose structure the others share."""
    sms: int = 0
    """Number of SMs of the device; 0 on the CPU."""
    l2_bytes: int = 0


class Take(Struct, frozen=True, kw_only=True):
    """The blobs are buffers that this side lends for its inputs."""

    side: str


class Advance(Struct, frozen=True, kw_only=True):
    """Go on to contents that no side has seen, and write them into these sides' buffers.

    Answered by `Advanced`; where no buffers are lent the contents come along as blobs.
    """

    seed: int
    sides: tuple[str, ...]


class Advanced(Struct, frozen=True, kw_only=True):
    """The contents are in the sides' buffers."""

    inputs: Nest


class Answer(Struct, frozen=True, kw_only=True):
    """Make the answers to the present contents, unless they exist. Answered by `Made`."""


class Verify(Struct, frozen=True, kw_only=True):
    """Compare a side's outputs, as `Compare` does. Answered by `Compared`."""

    side: str


class Screen(Struct, frozen=True, kw_only=True):
    """Check a side's outputs, which are the blobs, against eager's. Answered by `Screened`."""


class Screened(Struct, frozen=True, kw_only=True):
    """Whether the outputs pass the cheap check; if not, `Verify` decides."""

    alike: bool


class EmptyTurn(Struct, frozen=True, kw_only=True):
    """Take a turn without a call. Answered by `Timed`."""

    bare: bool


class TimeNative(Struct, frozen=True, kw_only=True):
    """Run the reference itself on the present contents. Answered by `Timed`."""

    bare: bool


class Timed(Struct, frozen=True, kw_only=True):
    """A reading of the clock."""

    reading: Reading


def timed_call(inputs: Nest, *, bare: bool, reset_state: bool) -> RunCall:
    """The request for a timed call; nothing in it reveals whether its outputs will be checked."""
    return RunCall(
        inputs=inputs,
        same_storage=True,
        # Filling with NaN would launch kernels of our own within the call.
        poison=Poison.PATTERN,
        watched=False,
        reset_state=reset_state,
        hold=False,
        bare=bare,
        # It takes up to milliseconds, which a stand-in does not: the judge would wait in vain.
        remembers=False,
    )
