"""The contents of inputs and weights in each case. Runs in reference workers only."""

import math
from collections.abc import Callable

import torch

from workbench.gate.correctness.cases import ORDERED, SPECIAL, STRAINED, Case
from workbench.gate.correctness.layout import copied, window

CENTRE = 0.37
"""Subtracted in the centred case: near the mean of U(0, 1), and no round number. The share of the
numbers that become negative where none would otherwise, or all."""
OUTLIER = 300.0
"""At no first index: a variance of numbers less the first one is by the book, and its error grows
from a spacing to as many as there are numbers where that one lies far out (Chan, Golub and LeVeque,
Algorithms for Computing the Sample Variance, 1983)."""
FACTORS = {
    Case.LARGE: 64.0,
    Case.TINY: 2.0**-20,
    Case.SMALL: 2.0**-7,
    Case.HUGE: 2.0**14,
    Case.VAST: 2.0**40,
    Case.NEGATED: -1.0,
}
_MOVED: dict[Case, Callable[[torch.Tensor], torch.Tensor]] = {
    Case.CENTRED: lambda numbers: numbers - _centre(numbers),
    Case.HALVES: lambda numbers: (2 * numbers).round() / 2,
}
_PUT = {Case.NOT_A_NUMBER: (math.nan,), Case.INFINITE: (math.inf, -math.inf)}
EDIT = 64
"""An edited tensor has one stretch of this share of its elements drawn again (ours)."""
CROWD = 0.75
"""Share of an integer tensor that is one number in a crowded case (ours)."""
KEPT = 1
"""Elements kept at either end of a tensor, where a fingerprint would look."""
OFFSET = 0.6
"""Of a dtype's digits (ours): 2^14 spreads in fp32. What rounding of the inputs makes of an answer
grows with it, what a difference of squares loses with its square."""
OCTAVES = 4.0
"""From one end of a dimension to the other (ours)."""
STEEPNESS = 16.0
"""The same where rows fall alone: blocks down to 1e-5 of the largest still count (ours)."""
ABOVE = 13.0
"""A hundred numbers so far below one are seven bounds of their exponential sum in fp32 (ours)."""


def apply_case(
    case: Case, inputs: list[torch.Tensor], before: list[torch.Tensor] | None, seed: int
) -> list[torch.Tensor]:
    """Fresh `inputs` turned into those of `case`, each in storage of its own, strides kept.

    `before` holds the inputs of the call before, whose ends a same-storage case keeps and of which
    an edited one keeps nearly everything.
    """
    generator = torch.Generator().manual_seed(seed)
    made = []
    floats = [place for place, x in enumerate(inputs) if rounded(x)]
    surely = floats[int(torch.randint(len(floats), (), generator=generator))] if floats else -1
    for place, x in enumerate(inputs):
        new = copied(x)
        if x.is_complex() and case not in (*STRAINED, *ORDERED):
            if place == surely or case not in SPECIAL:
                _change(case, torch.view_as_real(new), generator)
        elif x.is_floating_point() and case in STRAINED:
            _strain(case, new, turn=floats.index(place))
        elif case is Case.CROWDED:
            crowd(new, generator)
        elif x.is_floating_point() and (place == surely or case not in SPECIAL):
            _change(case, new, generator)
        if before is not None and place < len(before):
            if case is Case.KEPT_ENDS:
                _keep_ends(new, before[place])
            elif case is Case.EDITED and rounded(x):
                edited = place == surely or bool(torch.randint(2, (), generator=generator))
                _keep_but(new, before[place], generator, edited=edited)
        made.append(new)
    return made


def rounded(x: torch.Tensor) -> bool:
    """Whether a tensor's numbers may be any: the cases change them."""
    return x.is_floating_point() or x.is_complex()


def _change(case: Case, x: torch.Tensor, generator: torch.Generator) -> None:
    """Change a private tensor in place."""
    flat = window(x)
    match case:
        case Case.ZEROS:
            flat.zero_()
        case Case.ONES:
            flat.copy_(torch.randint(2, flat.shape, generator=generator))
        case Case.EQUAL if x.numel():
            flat.copy_(flat[:1].clone().expand_as(flat))
        case Case.OUTLIER if x.numel():
            _put(flat, _anywhere(x, generator, first=1), OUTLIER)
        case _ if case in _PUT and x.numel():
            for value in _PUT[case]:
                flat[_anywhere(x, generator)] = value
        case Case.RISING | Case.FALLING:
            _put_in_order(x, flat, falling=case is Case.FALLING)
        case _ if case in FACTORS:
            _store(flat, flat.double() * FACTORS[case])
        case _ if case in _MOVED:
            _store(flat, _MOVED[case](flat.double()))


def _strain(case: Case, x: torch.Tensor, turn: int) -> None:
    """Put a private tensor on an offset, raise some of its numbers, let it grow or fade, or bring
    its numbers near each other; `turn` counts tensors.
    """
    flat, sign = window(x), 1.0 if turn % 2 == 0 else -1.0
    if not x.numel():
        return
    if case in (Case.BELOW, Case.APART):
        _store(flat, flat.double() + (sign if case is Case.APART else -1.0) * _offset(flat))
        return
    place = flat if _shared(x) or not x.dim() else x
    match case:
        case Case.PEAKED:
            _raise_ends(place)
        case Case.PLATEAU:
            _store(place, 0.25 * place.double())
            middle = place[..., place.shape[-1] // 2]
            _store(middle, middle.double() + ABOVE)
        case Case.CLOSE:
            ranks = place.double().argsort(dim=-1).argsort(dim=-1)
            _store(place, 1.0 + torch.finfo(x.dtype).eps * ranks.double())
        case Case.STEEP:
            falling = _slope(place, -1, STEEPNESS).flip(-1)
            falling[..., 0] = 1.0  # see `OUTLIER`
            _store(place, place.double() * falling)
        case Case.GROWING | Case.FADING:
            _grow(case, place, sign)


def _grow(case: Case, place: torch.Tensor, sign: float) -> None:
    """Magnitudes from a quarter to four times along each of the last two dimensions, or back."""
    sizes = place.double().abs() * (sign if case is Case.GROWING else 1.0)
    for dim in range(max(place.dim() - 2, 0), place.dim()):
        slope = _slope(place, dim, OCTAVES)
        sizes *= slope if case is Case.GROWING else slope.flip(dim)
    _store(place, sizes)


def _slope(x: torch.Tensor, dim: int, octaves: float) -> torch.Tensor:
    """Factors that grow by this many octaves along a dimension, around 1."""
    steps = torch.linspace(-octaves / 2, octaves / 2, x.shape[dim], dtype=torch.float64)
    along = [1] * x.dim()
    along[dim] = -1
    return (2.0**steps).to(x.device).reshape(along)


def _raise_ends(x: torch.Tensor) -> None:
    """Add `OUTLIER` to the first number of a row and to the last of the next one, by turns."""
    rows = x[None] if x.dim() == 1 else x
    for ends in (rows[..., 0::2, 0], rows[..., 1::2, -1]):
        _store(ends, ends.double() + OUTLIER)


def _put_in_order(x: torch.Tensor, flat: torch.Tensor, *, falling: bool) -> None:
    """Magnitudes in order along the last dimension; in memory order where elements of a row share
    memory.
    """
    place = flat if _shared(x) or not x.dim() else x
    sizes = place.double().abs().sort(dim=-1, descending=True).values
    place.copy_((sizes if falling else -sizes).to(x.dtype))


def _shared(x: torch.Tensor) -> bool:
    """Whether elements share memory along a dimension."""
    return any(n > 1 and s == 0 for n, s in zip(x.shape, x.stride(), strict=True))


def crowd(x: torch.Tensor, generator: torch.Generator) -> None:
    """Make most of an integer tensor one of its numbers, if it repeats any; ends are kept, and the
    order where there is one.
    """
    flat = window(x)
    whole = not (x.is_floating_point() or x.is_complex() or x.dtype is torch.bool)
    if not whole or torch.unique(flat).numel() == flat.numel():
        return
    steps = flat[1:].long() - flat[:-1].long()
    lit = torch.rand(flat.shape, generator=generator) < CROWD
    lit[:KEPT] = lit[-KEPT:] = False
    flat[lit] = flat[_anywhere(x, generator)].clone()
    if bool((steps >= 0).all()) or bool((steps <= 0).all()):
        flat.copy_(flat.sort(descending=bool((steps < 0).any())).values)


def _centre(flat: torch.Tensor) -> float:
    """What leaves numbers of either sign, if they are not all equal."""
    numbers = flat.double()
    if not flat.numel() or float(numbers.min()) < CENTRE < float(numbers.max()):
        return CENTRE
    return float(numbers.sort().values[int(CENTRE * numbers.numel())])


def _offset(flat: torch.Tensor) -> float:
    """So many times the spread of the numbers that four tenths of their digits tell them apart."""
    digits = round(-math.log2(torch.finfo(flat.dtype).eps))
    numbers = flat.double()
    spread = float(numbers.std(correction=0)) or float(numbers.square().mean().sqrt())
    return 2.0 ** round(OFFSET * digits) * spread


def _anywhere(x: torch.Tensor, generator: torch.Generator, first: int = 0) -> int:
    """The position in the tensor's window of a random element, from index `first` on where a
    dimension has more than one.
    """
    lows = [first if n > 1 else 0 for n in x.shape]
    at = [
        int(torch.randint(low, n, (), generator=generator))
        for low, n in zip(lows, x.shape, strict=True)
    ]
    return sum(i * s for i, s in zip(at, x.stride(), strict=True))


def _put(flat: torch.Tensor, place: int, value: float) -> None:
    _store(flat[place : place + 1], torch.full((1,), value, dtype=torch.float64))


def _store(place: torch.Tensor, values: torch.Tensor) -> None:
    # Narrow dtypes end below the new values (float8_e4m3fn at 448): saturate, never overflow.
    top = torch.finfo(place.dtype).max
    place.copy_(values.clamp(-top, top).to(place.dtype))


def _keep_ends(x: torch.Tensor, old: torch.Tensor) -> None:
    new, was = window(x), window(old)
    if new.numel() > 2 * KEPT and new.numel() == was.numel():
        new[:KEPT] = was[:KEPT]
        new[-KEPT:] = was[-KEPT:]


def _keep_but(
    x: torch.Tensor, old: torch.Tensor, generator: torch.Generator, *, edited: bool
) -> None:
    """Copy `old` into `x`, except for one stretch where `edited`."""
    if (x.shape, x.stride(), x.dtype) != (old.shape, old.stride(), old.dtype) or not x.numel():
        return
    new, was = window(x), window(old)
    length = max(1, new.numel() // EDIT)
    start = int(torch.randint(new.numel() - length + 1, (), generator=generator))
    stretch = new[start : start + length].clone()
    new.copy_(was)
    if edited:
        new[start : start + length] = stretch


def perturb_state(state: dict[str, torch.Tensor], seed: int) -> None:
    """Move every floating-point parameter and buffer off its initial value, in place.

    x(1 + 0.5u) + 0.3u' with u, u' ~ U(0, 1) (gate protocol, section 8), so ones, zeros and running
    statistics are told from what a kernel might take for granted; what is positive stays positive.
    For matrices and filters 0.3u' is scaled by their own rms: a shift of 0.15 in every weight would
    grow with the fan-in and overflow a deep network. Integers stay as they are.
    """
    distinct = {(t.data_ptr(), t.shape): t for t in state.values()}  # tied weights move once
    for number, tensor in enumerate(distinct.values()):
        if not tensor.is_floating_point() or tensor.numel() == 0:
            continue
        generator = torch.Generator(tensor.device).manual_seed(seed + number)
        old = tensor.detach().double()
        first = torch.rand(old.shape, generator=generator, dtype=old.dtype, device=old.device)
        second = torch.rand(old.shape, generator=generator, dtype=old.dtype, device=old.device)
        step = 0.3 if old.dim() < 2 else 0.3 * _scale(old)
        tensor.detach().copy_(old * (1 + 0.5 * first) + step * second)


def _scale(matrix: torch.Tensor) -> float:
    """Rms of a weight; where it is all zeros, that of a weight which keeps its input's variance."""
    rms = float(matrix.square().mean().sqrt())
    return rms or (matrix.numel() / matrix.shape[0]) ** -0.5
