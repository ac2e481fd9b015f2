"""How far a candidate's numbers are from the fp64 answer, in units of the allowed rounding error.

Runs in reference workers only. It measures; the judge decides.

The bound (gate protocol, section 8), for every element of a floating-point output:

    |out - gold| <= max(C * eps * (|gold| + rms(gold)), 4 * max|native - gold|)

where gold is the reference in fp64, native the reference as it runs, eps the spacing of the
output's dtype at 1 and C a constant per dtype (`BOUNDS`). The rms term allows sums that cancel the
error of their terms; the second part allows a kernel the error that the reference itself has.
"""

import math
from collections.abc import Sequence

import torch
from msgspec import Struct

from workbench.gate.correctness.protocol import Measured
from workbench.problems.records import Tolerance

BOUNDS: dict[str, tuple[float, float]] = {
    "float64": (64.0, 2.0**-52),
    "float32": (64.0, 2.0**-23),
    "float16": (4.0, 2.0**-10),
    "bfloat16": (4.0, 2.0**-7),
    "float8_e4m3fn": (2.0, 2.0**-3),
    "float8_e5m2": (2.0, 2.0**-2),
    "complex64": (64.0, 2.0**-23),
    "complex128": (64.0, 2.0**-52),
}
"""C and eps by dtype, from the gate protocol (section 8.4); fp64 takes fp32's constant, fp8 is
ours: one rounding either side. Of complex numbers each part is compared.

Calibrated on an NVIDIA H200 (triton 3.6): over the honest kernels of the gate's corpus the largest
error was 0.32 of its bound, so the constants stayed as they were. The mildest exploit of precision
that was tried, bf16 terms in an fp32 mean of 8,192, is 2.6 bounds off in the interpreter. Where
tensor cores make long fp32 sums of products, C grows with them: `products.cut`. A machine's
own margins: `pytest tests/test_gate_corpus.py -k honest -rP | grep margin`."""

TF32 = (4.0, 2.0**-10)
"""C and eps of fp32 outputs where the problem allows TF32: ten explicit mantissa bits."""

EDGE = 0.02
"""Within 2 % of the dtype's largest value either side of overflow is right."""

JUMP = 8.0
"""An element whose value changes by that many bounds under another rounding is decided by rounding.
"""

SPREAD_SHARE = 0.05
"""A low-variance output may be off by 5 % of its own standard deviation (gate protocol, 8.4)."""


_MOST_GIVEN = 1 << 22
_LOOKED_UP = 4096
"""Elements of all inputs, and of an output that are looked for among them (ours)."""

_DEGREES = range(-2, 5)
_ALIKE = 2.0**-16
"""Degrees of a homogeneous reference, and how nearly it must scale (ours)."""

EXACT = {"float64": 2**53, "float32": 2**24, "float16": 2**11, "bfloat16": 2**8}
"""Whole numbers up to which a dtype holds every one (gate protocol, section 8.3)."""


class Rule(Struct, frozen=True):
    """C and eps of one output."""

    factor: float
    eps: float


class Slack(Struct, frozen=True):
    """What further runs of the reference allow beyond the rule."""

    excused: torch.Tensor | None = None
    """Elements of an exact tensor that are right although they differ."""
    seen: tuple[torch.Tensor, torch.Tensor] | None = None
    """The least and the largest value under other roundings: where an element jumps, anything
    between them is right."""
    spread: float = 0.0
    """The largest error over further runs of a reference that is not bitwise reproducible."""
    nothing: bool = False
    """The reference is not a measure for such inputs: nothing is compared."""


NO_SLACK = Slack()


def rule_for(dtype: torch.dtype, own: dict[str, Tolerance], *, tf32: bool) -> Rule:
    """The constants for an output's dtype: the problem's own, else TF32's, else the table's."""
    name = str(dtype).removeprefix("torch.")
    if name in own:
        return Rule(own[name].factor, own[name].eps)
    if tf32 and name == "float32":
        return Rule(*TF32)
    return Rule(*BOUNDS.get(name, BOUNDS["float32"]))


def in_parts(numbers: torch.Tensor) -> torch.Tensor:
    """Complex numbers as pairs along a last dimension of their own; others as they are."""
    return torch.view_as_real(numbers.resolve_conj()) if numbers.is_complex() else numbers


def exact(gold: torch.Tensor, native: torch.Tensor) -> bool:
    """Whether the answer is the same in any order of summation.

    For inputs of zeros and ones: integers that the dtype represents, in fp64 and as the reference
    runs, and not all equal.
    """
    top = EXACT.get(str(native.dtype).removeprefix("torch."))
    if top is None or native.numel() < 2:
        return False
    answer = gold.double()
    whole = bool(((answer == answer.round()) & (answer.abs() <= top)).all())
    agrees = bool((answer == native.double()).all())
    return whole and agrees and float(answer.max()) > float(answer.min())


def moved(gold: torch.Tensor, native: torch.Tensor, inputs: Sequence[torch.Tensor]) -> bool:
    """Whether the reference only moves numbers: sorts, gathers, takes the largest, casts once.

    Its answer is the fp64 one rounded once, and at least half of what is not zero in that (of some
    elements) stands in an input: what is computed is neither.
    """
    if not native.is_floating_point() or not bool((gold.to(native.dtype) == native).all()):
        return False
    return share_given(inputs, gold) >= 0.5


def share_given(inputs: Sequence[torch.Tensor], numbers: torch.Tensor) -> float:
    """The share of (some of) a tensor's numbers that stand in a floating-point input, of those that
    are not zero; 0 where there are fewer than two of them, or too many inputs to look through.
    """
    given = sum(x.numel() for x in inputs if x.is_floating_point())
    if not 0 < given <= _MOST_GIVEN:
        return 0.0
    some = evenly(numbers, _LOOKED_UP).double()
    some = some[some != 0]
    return float(given_in(inputs, some).double().mean()) if some.numel() > 1 else 0.0


def evenly(numbers: torch.Tensor, most: int) -> torch.Tensor:
    """At most so many of a tensor's elements, evenly spaced in row-major order."""
    return numbers.reshape(-1)[:: max(-(-numbers.numel() // most), 1)]


def given_in(inputs: Sequence[torch.Tensor], numbers: torch.Tensor) -> torch.Tensor:
    """Which of some numbers stand in a floating-point input."""
    given = [x.reshape(-1).double() for x in inputs if x.is_floating_point()]
    return torch.isin(numbers.double(), torch.cat(given))


def scaled(small: torch.Tensor, plain: torch.Tensor, factor: float) -> bool:
    """Whether an answer to inputs times `factor` is the one to the plain inputs times a power of
    it: such a reference has no size of its own.
    """
    small, plain = small.double(), plain.double()
    off = _ALIKE * small.abs().max()
    return any(bool(((small - plain * factor**n).abs() <= off).all()) for n in _DEGREES)


def root_mean_square(values: torch.Tensor) -> float:
    """Of a tensor's elements, none of them infinite."""
    return float(values.double().square().mean().sqrt())


def measure_special(
    what: str, got: torch.Tensor, gold: torch.Tensor, native: torch.Tensor
) -> Measured:
    """Compare only where NaN and infinities are, as far as the reference and its fp64 run agree."""
    dtype = str(native.dtype).removeprefix("torch.")
    if not native.is_floating_point() or not native.numel():
        return Measured(what=what, dtype=dtype)
    wrong = (_special(native) == _special(gold)) & (_special(got) != _special(native))
    index = _index(wrong.reshape(-1).to(torch.uint8).argmax(), native.shape)
    return Measured(
        what=what,
        dtype=dtype,
        elements=native.numel(),
        wrong_finite=int(wrong.sum()),
        index=index,
        value=float(got[index]),
        gold=float(gold[index]),
        native=float(native[index]),
    )


def _special(values: torch.Tensor) -> torch.Tensor:
    """0 for a finite element, 1 or -1 for an infinite one, 2 for NaN."""
    wide = values.double()  # of fp8 torch cannot ask it
    infinite = torch.isposinf(wide).to(torch.int8) - torch.isneginf(wide).to(torch.int8)
    return infinite + 2 * torch.isnan(wide).to(torch.int8)


def measure_equality(
    what: str, got: torch.Tensor, native: torch.Tensor, excused: torch.Tensor | None = None
) -> Measured:
    """Compare one tensor whose every element must be the reference's, but for those excused."""
    return _measure_exact(what, str(native.dtype).removeprefix("torch."), got, native, excused)


def measure(  # three tensors, their rule, and what is known of their doubt
    what: str,
    got: torch.Tensor,
    gold: torch.Tensor,
    native: torch.Tensor,
    rule: Rule,
    slack: Slack = NO_SLACK,
) -> Measured:
    """Compare one tensor; the three have one shape, `got` and `native` one dtype."""
    dtype = str(native.dtype).removeprefix("torch.")
    got, gold, native = (in_parts(t) for t in (got, gold, native))
    if not native.is_floating_point():
        return _measure_exact(what, dtype, got, native, slack.excused)
    return _measure_rounded(what, got, gold, native, rule, slack)


def _measure_exact(
    what: str,
    dtype: str,
    got: torch.Tensor,
    native: torch.Tensor,
    excused: torch.Tensor | None,
) -> Measured:
    wrong = got != native
    if excused is not None:
        wrong &= ~excused
    count = int(wrong.sum())
    if not count:
        return Measured(what=what, dtype=dtype, elements=native.numel())
    index = _index(wrong.reshape(-1).to(torch.uint8).argmax(), native.shape)
    return Measured(
        what=what,
        dtype=dtype,
        elements=native.numel(),
        wrong_exact=count,
        index=index,
        value=float(got[index]),
        gold=float(native[index]),
        native=float(native[index]),
    )


def _measure_rounded(
    what: str,
    got: torch.Tensor,
    gold: torch.Tensor,
    native: torch.Tensor,
    rule: Rule,
    slack: Slack,
) -> Measured:
    dtype = str(native.dtype).removeprefix("torch.")
    if native.numel() == 0:
        return Measured(what=what, dtype=dtype)
    value, answer, own = got.double(), gold.double(), native.double()
    finite, wrong = _finite_masks(value, answer, own, torch.finfo(native.dtype).max)
    size = torch.where(finite, answer.abs(), 0.0)
    count = int(finite.sum())
    rms = float((size.square().sum() / max(count, 1)).sqrt())
    own_error = max(slack.spread, float(torch.where(finite, (own - answer).abs(), 0.0).max()))
    rounding = rule.factor * rule.eps * (size + rms)
    bound = rounding.clamp(min=max(4 * own_error, _least(native.dtype)))
    error = _error(value, answer, finite, bound, slack.seen)
    ratio = torch.nan_to_num(error / bound, nan=math.inf)
    worst = wrong if bool(wrong.any()) else ratio
    index = _index(worst.reshape(-1).to(torch.float64).argmax(), native.shape)
    return Measured(
        what=what,
        dtype=dtype,
        elements=count,
        ratio=float(ratio.max()),
        low_variance=_low_variance(error, size, answer, finite, rule.eps, own_error),
        wrong_finite=int(wrong.sum()),
        index=index,
        value=float(value[index]),
        gold=float(answer[index]),
        native=float(own[index]),
        bound=float(bound[index]),
    )


def _error(
    value: torch.Tensor,
    gold: torch.Tensor,
    finite: torch.Tensor,
    bound: torch.Tensor,
    seen: tuple[torch.Tensor, torch.Tensor] | None,
) -> torch.Tensor:
    """Distance from the answer; where runs of the reference jump, from the range they span."""
    error = torch.where(finite, (value - gold).abs(), 0.0)
    if seen is None:
        return error
    low, high = torch.minimum(seen[0], gold), torch.maximum(seen[1], gold)
    jumps = (high - low > JUMP * bound) & finite
    outside = (low - value).clamp(min=0.0) + (value - high).clamp(min=0.0)
    return torch.where(jumps, outside, error)


def _finite_masks(
    value: torch.Tensor, gold: torch.Tensor, native: torch.Tensor, top: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Where elements are compared within the bound, and where their finiteness is wrong.

    Only what the reference itself can compute is required: where it overflows on the way to a
    finite answer, or gives NaN, anything is accepted. NaN is never required: `tl.maximum` drops it
    on a GPU and keeps it in the interpreter.
    """
    size = gold.abs()
    own_finite = torch.isfinite(native)
    finite = (size <= (1 - EDGE) * top) & own_finite
    overflows = (size >= (1 + EDGE) * top) & torch.isfinite(gold) & ~own_finite
    infinite = torch.isinf(gold) & (native == gold)
    wrong = finite & ~torch.isfinite(value)
    wrong |= overflows & torch.isfinite(value)
    wrong |= infinite & (value != gold)
    return finite, wrong


def _least(dtype: torch.dtype) -> float:
    """An error below this is due to the dtype's range, not to its precision.

    GPUs may flush fp32 and bf16 subnormals to zero; fp16 keeps them.
    """
    info = torch.finfo(dtype)
    return info.tiny * info.eps if dtype is torch.float16 else info.tiny


def _low_variance(
    error: torch.Tensor,
    size: torch.Tensor,
    gold: torch.Tensor,
    finite: torch.Tensor,
    eps: float,
    own_error: float,
) -> float:
    """Worst error over 5 % of the output's standard deviation, for a signal on a large offset.

    The main bound scales with the offset, so a constant could pass for a signal that is small
    relative to it. Applies when 32 eps |mean| < std < |mean|: below, rounding hides the signal;
    above, there is no offset. One spacing of the value and the reference's own error are always
    allowed.
    """
    values = gold[finite]
    if values.numel() < 2:
        return 0.0
    std, mean = torch.std_mean(values)
    offset = float(mean.abs())
    if not 32 * eps * offset < float(std) < offset:
        return 0.0
    allowed = (eps * size).clamp(min=max(SPREAD_SHARE * float(std), 4 * own_error))
    return float((error / allowed).max())


def _index(flat: torch.Tensor, shape: torch.Size) -> tuple[int, ...]:
    """The index in `shape` of a flat place in row-major order."""
    place, index = int(flat), []
    for n in reversed(shape):
        index.append(place % n)
        place //= n
    return tuple(reversed(index))
