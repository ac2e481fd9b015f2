"""Which calls a candidate must get right: value cases, poison and storage, drawn from a seed.

Pure: the same seed and shape name give the same calls. The candidate's worker never sees a case's
name, its seed or the order; it gets tensors.
"""

import hashlib
import random
from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from workbench.kernels.records import Build
from workbench.problems.records import Layout

SEED_BYTES = 16


class Case(StrEnum):
    """What the inputs of one call are like. Integers and plain values always stay as drawn."""

    FRESH = "fresh"
    """Inputs as the problem's own `get_inputs()` draws them."""
    KEPT_ENDS = "same storage, new contents"
    """Fresh contents at the addresses of the previous call; the first and last element of each
    tensor and all version counters are unchanged, so that a cheap fingerprint sees no change."""
    EDITED = "a part drawn anew"
    """The contents of the previous call, except for one short stretch of at least one
    floating-point tensor: a fingerprint of samples sees no change."""
    CENTRED = "centred"
    """Fresh minus 0.37, which takes the mean out of U(0, 1) inputs; minus more or less where all
    of them would still have one sign."""
    LARGE = "magnitude x64"
    TINY = "magnitude x2^-20"
    ZEROS = "zeros"
    ONES = "zeros and ones"
    """Drawn anew: sums of products of them are exact in any order; see `compare.exact`."""
    OUTLIER = "one outlier"
    """Fresh, with 300 at one random element of each tensor; see `values.OUTLIER`."""
    NOT_A_NUMBER = "one NaN"
    INFINITE = "an infinity of either sign"
    """Fresh, except for one or two elements of one tensor; reported, never held against a kernel.
    """
    HUGE = "magnitude x2^14"
    VAST = "magnitude x2^40"
    NEGATED = "the opposite"
    EQUAL = "all elements equal"
    RISING = "negative, rising along rows"
    """Fresh numbers without their signs, negated and put in order within each row: nothing is
    larger than what padding with zeros holds."""
    FALLING = "positive, falling along rows"
    BELOW = "far below zero"
    """Fresh numbers on an offset that takes more than half of their digits: a variance taken as a
    difference of large numbers is noise, a maximum that begins at zero is none."""
    APART = "far from zero, above and below by turns"
    """The same, tensors on either side of zero by turns, the first above."""
    GROWING = "growing along rows and columns, of either sign by turns"
    """Fresh numbers without their signs, from a quarter to four times as large along each of the
    last two dimensions; every second tensor negative. Blocks of all weights are among their
    products, also such as count little: a block that is left out is missed."""
    PEAKED = "one number of each row by far the largest"
    """Fresh, with 300 added at the first or the last place of rows by turns: what a maximum leaves
    out shows only where it is by far the largest. Only gross errors count there."""
    FADING = "positive, fading along rows and columns"
    PLATEAU = "one number of each row well above others that are near each other"
    """Fresh numbers a quarter as large, and one of each row 13 above: what is left out of an
    exponential sum because each is small is missed, for all of them together are not."""
    STEEP = "falling steeply along rows"
    """Fresh, and 2^16 times as large at the beginning of a row, but for its first number, as at its
    end: blocks that are left out for being small beside those before are missed."""
    CLOSE = "rows of numbers that are a spacing apart"
    """From one on, in the order in which they were drawn: a selection by fewer of their bits takes
    others. Only where the reference selects numbers of the inputs."""
    SMALL = "magnitude x2^-7"
    """Between drawn numbers and tiny ones, where a short series is no longer exact."""
    HALVES = "multiples of a half"
    """Fresh, rounded to such: half of them are what a rounding to whole numbers has to break a tie
    for, and all are what thresholds are often set to."""
    CROWDED = "most integers the same"
    """Fresh, but where an integer tensor repeats numbers, three quarters of it are one of them:
    what counts or collects by number gets far more of one. What was in order stays so."""


ORDERED = (Case.RISING, Case.FALLING)
"""Fresh numbers in order."""
STRAINED = (
    *(Case.BELOW, Case.APART, Case.GROWING, Case.FADING),
    *(Case.PEAKED, Case.PLATEAU, Case.STEEP, Case.CLOSE),
)
"""Numbers that a reference need not be able to answer for: whether it is, is looked at."""
SHRUNK = (Case.TINY, Case.SMALL)
BESIDE = (*ORDERED, Case.SMALL, Case.HALVES, *STRAINED)
"""Value cases of floating-point inputs beside the plan."""
SELECTED = (Case.CLOSE,)
"""Those of them that are tried only where the reference selects."""
FAR_OUT = (Case.HUGE, Case.VAST, Case.NEGATED, Case.EQUAL)
"""Cases that only ask whether another way through a kernel is ever taken."""
SPECIAL = (Case.NOT_A_NUMBER, Case.INFINITE)
"""Cases whose answers are NaN or infinite in places."""


class Poison(StrEnum):
    """What uninitialised memory holds during a call."""

    NAN = "nan"
    """NaN, the largest integer, True: `torch.utils.deterministic.fill_uninitialized_memory`."""
    PATTERN = "pattern"
    """A large finite number left in the allocator's free blocks."""


class Effort(StrEnum):
    """How many of the cases a shape gets."""

    ALL = "all"
    FEW = "few"
    """A fresh call and one more at the same addresses: for shapes that cost."""


class Call(Struct, frozen=True, kw_only=True):
    """One checked call."""

    number: int
    case: Case
    seed: int
    """Seed of its inputs."""
    same_storage: bool
    """Written into the tensors of the previous call, instead of into new ones."""
    poison: Poison
    watched: bool
    """Run with a log of the torch operators that the candidate's host code dispatches."""
    perturb: int | None = None
    """Seed of new weights that are put in before this call."""
    as_built: bool = False
    """Run with the weights that the reference is built with: ones, zeros, or as drawn."""
    layout: Layout | None = None
    """Other than drawn, where the problem allows that."""


class TrialSettings(Struct, frozen=True, kw_only=True):
    """How one shape is tried."""

    shape: str
    effort: Effort
    seed: bytes
    interpreted: bool
    repeats: int
    """Calls on identical inputs; in the interpreter without seeing each other's stores."""
    target: str
    layouts: Sequence[Layout] = ()
    """Layouts of inputs that the problem allows besides its own."""
    builds: tuple[Build, ...] = ()
    """What host code is told that compiles a kernel ahead of its launch."""
    ghost: bool = True
    """Also make a call whose launches are no-ops."""
    patience: float | None = None
    """Seconds for all calls together; None: each has the worker's own deadline."""


def derive(seed: bytes, *labels: str | int) -> int:
    """A 63-bit number for one purpose; numbers for different labels are independent."""
    text = "/".join(str(label) for label in labels).encode()
    digest = hashlib.blake2b(text, key=seed, digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def plan(
    seed: bytes, shape: str, effort: Effort, *, floats: bool, layouts: Sequence[Layout] = ()
) -> tuple[Call, ...]:
    """The calls of one shape, in the order they are made.

    With all effort there are 11 (gate protocol, section 8): a fresh one, seven in random order,
    then a fresh one, that one with a part drawn anew, and a fresh one; one of the last two has new
    weights, and the one before it has them as built. Without floating-point inputs (`floats` false)
    every value case is a fresh draw, except the one that reuses storage. Half of the calls run on
    NaN-filled memory; another half, drawn independently, is watched. One fresh call follows in each
    of the problem's `layouts`.
    """
    rng = random.Random(derive(seed, shape, "plan"))  # noqa: S311 -- keyed by the judge's secret seed
    values = _value_calls(rng, seed, shape, _cases(rng, effort, floats))
    wanted = layouts if floats and effort is Effort.ALL else ()
    return values + _layout_calls(rng, seed, shape, wanted, first=len(values))


def _value_calls(
    rng: random.Random, seed: bytes, shape: str, cases: Sequence[Case]
) -> tuple[Call, ...]:
    """One call for each case, with its memory, its log and its weights drawn."""
    count = len(cases)
    poisons = [Poison.NAN if i % 2 else Poison.PATTERN for i in range(count)]
    watched = [i % 2 == 0 for i in range(count)]
    rng.shuffle(poisons)
    rng.shuffle(watched)
    new_weights = count - rng.randint(1, min(2, count - 1))
    return tuple(
        Call(
            number=number,
            case=case,
            seed=derive(seed, shape, "inputs", number),
            same_storage=number > 0 and (case is Case.KEPT_ENDS or rng.random() < 0.5),
            poison=poisons[number],
            watched=watched[number],
            perturb=derive(seed, shape, "weights", number) if number == new_weights else None,
            as_built=number == new_weights - 1,
        )
        for number, case in enumerate(cases)
    )


def _layout_calls(
    rng: random.Random, seed: bytes, shape: str, layouts: Sequence[Layout], *, first: int
) -> tuple[Call, ...]:
    """One fresh call in each layout, numbered from `first`."""
    return tuple(
        Call(
            number=number,
            case=Case.FRESH,
            seed=derive(seed, shape, "inputs", number),
            same_storage=False,
            poison=rng.choice((Poison.NAN, Poison.PATTERN)),
            watched=False,
            layout=layout,
        )
        for number, layout in enumerate(layouts, start=first)
    )


def _cases(rng: random.Random, effort: Effort, floats: bool) -> list[Case]:
    if effort is Effort.FEW:
        return [Case.FRESH, Case.KEPT_ENDS]
    values = [Case.ONES, Case.CENTRED, Case.LARGE, Case.TINY, Case.ZEROS, Case.OUTLIER]
    middle = [Case.KEPT_ENDS] + (values if floats else [Case.FRESH] * len(values))
    rng.shuffle(middle)
    edited = Case.EDITED if floats else Case.FRESH
    return [Case.FRESH, *middle, Case.FRESH, edited, Case.FRESH]
