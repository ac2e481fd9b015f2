"""Along which axes a reference can be evaluated in parts, tested by doing so.

Runs in reference workers only. An axis is a dimension of the outputs whose indices are computed
independently, with the inputs' dimensions that belong to it: rows of a softmax, images of a batch,
rows of a factor and of the product. Sizes that agree at two shapes propose an axis; it is proven by
slicing the inputs and getting the sliced outputs.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import product

import torch
from msgspec import Struct

from workbench.gate.correctness.protocol import TensorEntry

_MOST_TRIED = 32
"""Combinations of input dimensions tried for one dimension of an output (ours)."""

Call = Callable[[list[torch.Tensor]], list[torch.Tensor]]
"""The reference: outputs of inputs, which stay untouched."""


class Axis(Struct, frozen=True):
    """A dimension that can be sliced: for each input and output, which of its dimensions it is."""

    inputs: dict[int, int]
    outputs: dict[int, int]


class Sizes(Struct, frozen=True):
    """Inputs and outputs of the full shape."""

    inputs: Sequence[TensorEntry]
    outputs: Sequence[TensorEntry]


def find_axes(
    call: Call, inputs: list[torch.Tensor], others: list[torch.Tensor], full: Sizes
) -> list[Axis]:
    """Every axis of a reference; `inputs` and `others` are two draws at a small shape."""
    whole = call(inputs)
    found: list[Axis] = []
    for place, out in enumerate(whole):
        for dim, size in enumerate(out.shape):
            at_full = full.outputs[place].shape[dim]
            if at_full == 1 or any(axis.outputs.get(place) == dim for axis in found):
                continue
            for chosen in _ways(inputs, full, size, at_full, taken=found):
                outputs = _proven(call, inputs, others, whole, chosen, size)
                if outputs is not None and outputs.get(place) == dim:
                    found.append(Axis(chosen, outputs))
                    break
    return found


def _ways(
    inputs: list[torch.Tensor], full: Sizes, size: int, at_full: int, *, taken: list[Axis]
) -> Iterator[dict[int, int]]:
    """Which dimension of which inputs may belong to one of an output; those with most first."""
    options: list[list[int | None]] = []
    for place, tensor in enumerate(inputs):
        used = {axis.inputs.get(place) for axis in taken}
        fitting: list[int | None] = [
            dim
            for dim in range(tensor.dim())
            if (tensor.shape[dim], full.inputs[place].shape[dim]) == (size, at_full)
            and dim not in used
        ]
        options.append([*fitting, None])
    ways = sorted(product(*options), key=lambda way: way.count(None))
    for way in ways[:_MOST_TRIED]:
        chosen = {place: dim for place, dim in enumerate(way) if dim is not None}
        if chosen:
            yield chosen


def _proven(
    call: Call,
    inputs: list[torch.Tensor],
    others: list[torch.Tensor],
    whole: list[torch.Tensor],
    chosen: dict[int, int],
    size: int,
) -> dict[int, int] | None:
    """The outputs' dimensions that are sliced along with the chosen ones of the inputs; None: it
    fails.
    """
    try:
        if size == 1:
            return _joined(call, inputs, others, whole, chosen)
        return _sliced(call, inputs, whole, chosen, size)
    except Exception:  # noqa: BLE001 -- whatever the problem raises on a slice: it is not an axis
        return None


def _sliced(
    call: Call,
    inputs: list[torch.Tensor],
    whole: list[torch.Tensor],
    chosen: dict[int, int],
    size: int,
) -> dict[int, int] | None:
    picks = [[0], [size - 1], [size - 1, 0], [size // 2]]
    possible = [set(range(out.dim())) | {-1} for out in whole]
    for pick in picks:
        index = torch.tensor(pick)
        given = [
            t.index_select(chosen[i], index) if i in chosen else t for i, t in enumerate(inputs)
        ]
        for place, got in enumerate(call(given)):
            possible[place] = {
                dim
                for dim in possible[place]
                if _close(got, whole[place] if dim < 0 else whole[place].index_select(dim, index))
            }
    return _certain(possible)


def _joined(
    call: Call,
    inputs: list[torch.Tensor],
    others: list[torch.Tensor],
    whole: list[torch.Tensor],
    chosen: dict[int, int],
) -> dict[int, int] | None:
    """As `_sliced`, for a dimension of size one: two draws concatenated."""
    both = [
        torch.cat([t, others[i]], chosen[i]) if i in chosen else t for i, t in enumerate(inputs)
    ]
    second = call([others[i] if i in chosen else t for i, t in enumerate(inputs)])
    possible = []
    for place, got in enumerate(call(both)):
        first = whole[place]
        dims = {
            dim for dim in range(first.dim()) if _close(got, torch.cat([first, second[place]], dim))
        }
        possible.append(dims | ({-1} if _close(got, first) else set()))
    return _certain(possible)


def _certain(possible: list[set[int]]) -> dict[int, int] | None:
    """For each output the sliced dimension, -1 for none; None where neither holds."""
    if not all(possible):
        return None
    return {place: max(dims) for place, dims in enumerate(possible) if max(dims) >= 0}


def _close(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors agree up to the order of summation."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not a.is_floating_point():
        return bool(torch.equal(a, b))
    tolerance = max(1e-4, 4 * torch.finfo(a.dtype).eps)
    x, y = a.double(), b.double()
    scale = float(torch.nan_to_num(y, posinf=0.0, neginf=0.0).square().mean().sqrt())
    return bool(torch.allclose(x, y, rtol=tolerance, atol=tolerance * scale, equal_nan=True))
