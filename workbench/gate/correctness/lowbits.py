"""Whether an output was rounded to a coarser type than its own on the way.

Runs in reference workers only. Such an output is within a few spacings of the answer, so the bound
lets it pass; what gives it away is that its lowest bit never varies.
"""

import torch

from workbench.gate.correctness.compare import evenly

_BITS = {1: torch.int8, 2: torch.int16}
"""Integers as wide as the types that are looked at, by bytes."""

_LOOKED_AT = 1 << 14
"""Elements, evenly spaced (ours)."""

_DISTINCT = 16
"""Different answers whose lowest bit the output lacks (ours): by chance all of them would lack it
in one of 65,536 outputs, were no more of their bits right than a coin's."""


def lowest_bit_is_lost(got: torch.Tensor, gold: torch.Tensor, native: torch.Tensor) -> bool:
    """Whether an output's lowest bit is the same everywhere, though the answer's is not.

    Of tensors of one shape, `got` and `native` of one dtype. The answers that count are those in
    which the reference, as it runs and in fp64, has the bit that the output lacks. Types of four
    bytes and more are not looked at: there kernels compute in the type itself, and a difference
    such as 2 sigmoid(2x) - 1 has zeros in its lowest bits by nature.
    """
    whole = _BITS.get(native.element_size())
    if whole is None or not native.is_floating_point() or not native.numel():
        return False
    ideal, own, found = (
        evenly(one, _LOOKED_AT).contiguous() for one in (gold.to(native.dtype), native, got)
    )
    least, most = torch.finfo(native.dtype).tiny, torch.finfo(native.dtype).max
    sizes = [one.double().abs() for one in (ideal, own, found)]
    normal = torch.stack([(least <= size) & (size <= most) for size in sizes]).all(dim=0)
    ideal, own, found = (one.view(whole)[normal] for one in (ideal, own, found))
    if not found.numel():
        return False
    lowest = found & 1
    lacked = 1 - int(lowest[0])
    if bool((lowest == lacked).any()):
        return False
    answers = ideal[((ideal & 1) == lacked) & ((own & 1) == lacked)]
    return int(torch.unique(answers).numel()) >= _DISTINCT
