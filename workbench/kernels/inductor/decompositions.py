"""Operators that Inductor has no Triton for, written in operators for which it has."""

from collections.abc import Callable, Sequence
from math import prod

import torch
from torch import Tensor
from torch._decomp import decomposition_table
from torch._inductor.decomposition import select_decomp_table
from torch.nn import functional

from workbench.kernels.untyped import Untyped

_UNROLLED = 25
"""Windows up to here Inductor unrolls by itself; larger ones it leaves to a library."""

_TEMPLATE_MIN_CHANNELS = 3
"""In and out channels of a group from which Inductor's implicit GEMM is taken. `tl.dot` pads them
to 16, which still beats a sum that reuses nothing. Ours: a sum over 8 channels took 18 ms on an
H200 where a GEMM of gathered patches takes 0.7 ms; the crossing itself was not measured."""


def decompositions() -> dict[Untyped, Callable[..., Untyped]]:
    """Inductor's own table, what PyTorch can take apart besides, and ours on top."""
    aten = torch.ops.aten
    besides = (
        aten._adaptive_avg_pool2d.default,  # noqa: SLF001 -- aten's own name for it
        aten.adaptive_max_pool2d.default,
        aten.upsample_bilinear2d.default,
        aten.upsample_bicubic2d.default,
        aten.upsample_trilinear3d.default,
        aten.grid_sampler_2d.default,
    )
    return {
        **select_decomp_table(),
        **{op: decomposition_table[op] for op in besides if op in decomposition_table},
        aten.mm.default: matrix_product,
        aten.convolution.default: convolution,
        aten.avg_pool2d.default: average_pool,
        aten.avg_pool3d.default: average_pool,
    }


def matrix_product(a: Tensor, b: Tensor) -> Untyped:
    """A product with a vector, as one product and one sum: a tile of 16 columns would waste 15.

    NotImplemented leaves true matrix products to Inductor's template.
    """
    if 1 not in (a.shape[0], b.shape[1]):
        return NotImplemented
    return (a.unsqueeze(2) * b.unsqueeze(0)).sum(1)


def convolution(  # noqa: PLR0913, PLR0917 -- aten's signature
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Untyped:
    """Convolution of any dimension, dilation and grouping, transposed or not.

    NotImplemented leaves the operator to Inductor's implicit-GEMM template where that fits.
    """
    dims = weight.dim() - 2
    if x.dim() != dims + 2 or _has_template(weight, dilation, groups, transposed):
        return NotImplemented
    kernel = weight.shape[2:]
    stride, padding, dilation, output_padding = (
        _each(values, dims) for values in (stride, padding, dilation, output_padding)
    )
    if transposed:
        x, pads = _stretched(x, stride, padding, output_padding, dilation, kernel)
        x, weight = functional.pad(x, _flat(pads)), _turned(weight, groups)
        ones, zeros = [1] * dims, [0] * dims
        y = torch.ops.aten.convolution(x, weight, None, ones, zeros, dilation, False, zeros, groups)
    else:
        x = functional.pad(x, _flat([(p, p) for p in padding]))
        y = _summed_windows(_windows(x, kernel, stride, dilation), weight, groups)
    return y if bias is None else y + bias.reshape(-1, *[1] * dims)


def _summed_windows(windows: Tensor, weight: Tensor, groups: int) -> Tensor:
    """Direct convolution: each window times the weight, summed over channels and window."""
    dims = weight.dim() - 2
    kernel = weight.shape[2:]
    batch, channels, *out = windows.shape[: 2 + dims]
    x = windows.reshape(batch, groups, 1, channels // groups, *out, *kernel)
    w = weight.reshape(1, groups, -1, channels // groups, *[1] * dims, *kernel)
    summed = [3, *range(4 + dims, 4 + 2 * dims)]
    return (x * w).sum(summed).reshape(batch, -1, *out)


def average_pool(
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor: int | None = None,
) -> Untyped:
    """Average pooling with a large window, as a sum over windows.

    NotImplemented leaves small windows, and the rarer options, to Inductor.
    """
    dims = 2 if x.dim() == 4 else 3
    kernel = _each(kernel, dims)
    if prod(kernel) <= _UNROLLED or ceil_mode or x.dim() != dims + 2:
        return NotImplemented
    pads = [(p, p) for p in _each(padding, dims)]
    step = _each(stride or kernel, dims)
    around = list(range(-dims, 0))

    def summed(values: Tensor) -> Tensor:
        return _windows(functional.pad(values, _flat(pads)), kernel, step, [1] * dims).sum(around)

    if divisor or count_include_pad:
        return summed(x) / (divisor or prod(kernel))
    return summed(x) / summed(torch.ones_like(x))


def _each(values: Sequence[int], dims: int) -> list[int]:
    return list(values) * (dims // len(values))


def _flat(pads: Sequence[tuple[int, int]]) -> list[int]:
    """As `functional.pad` takes them: the last dimension first."""
    return [p for pair in reversed(pads) for p in pair]


def _windows(
    x: Tensor, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Tensor:
    """View [batch, channels, *out, *kernel] of the windows over [batch, channels, *size]."""
    for i, size in enumerate(kernel):
        x = x.unfold(2 + i, dilation[i] * (size - 1) + 1, stride[i])[..., :: dilation[i]]
    return x


def _has_template(weight: Tensor, dilation: Sequence[int], groups: int, transposed: bool) -> bool:
    return (
        weight.dim() in (4, 5)
        and not transposed
        and all(d == 1 for d in dilation)
        and min(weight.shape[1], weight.shape[0] // groups) >= _TEMPLATE_MIN_CHANNELS
    )


def _stretched(
    x: Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    output_padding: Sequence[int],
    dilation: Sequence[int],
    kernel: Sequence[int],
) -> tuple[Tensor, list[tuple[int, int]]]:
    """A transposed convolution's input with `stride - 1` zeros between elements, and its padding.

    A negative pad crops.
    """
    dims = len(stride)
    pads = []
    for i, step in enumerate(stride):
        size = x.shape[2 + i]
        if step > 1:
            after = [0, 0] * (dims - 1 - i)
            x = functional.pad(x.unsqueeze(3 + i), [*after, 0, step - 1])
            x = x.flatten(2 + i, 3 + i).narrow(2 + i, 0, (size - 1) * step + 1)
        reach = dilation[i] * (kernel[i] - 1) - padding[i]
        pads.append((reach, reach + output_padding[i]))
    return x, pads


def _turned(weight: Tensor, groups: int) -> Tensor:
    """A transposed convolution's weight as the plain one wants it: out before in, flipped."""
    inputs, outputs, *kernel = weight.shape
    turned = weight.reshape(groups, inputs // groups, outputs, *kernel).transpose(1, 2)
    plain = turned.reshape(groups * outputs, inputs // groups, *kernel)
    return plain.flip(*range(2, weight.dim()))
