"""What the reference's worker does for the full shape: contents, and answers where programs wrote.

The whole reference may be far too large to run here. Where parts of its outputs can be worked out
alone, only those are that some program stored to.
"""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from msgspec import Struct, structs

from workbench.gate.correctness.choices import with_its_values
from workbench.gate.correctness.compare import Rule, rule_for
from workbench.gate.correctness.comparing import Answered, Comparison
from workbench.gate.correctness.full.axes import Axis, Sizes, find_axes
from workbench.gate.correctness.full.contents import chunk_for, part_of, tied
from workbench.gate.correctness.full.protocol import (
    ComparedStored,
    CompareStored,
    Group,
    Prepare,
    Prepared,
)
from workbench.gate.correctness.gold import state_of
from workbench.gate.correctness.oracle import Oracle
from workbench.gate.correctness.protocol import Measured, TensorEntry, decode, encode
from workbench.gate.correctness.values import crowd
from workbench.isolation.context import JobContext
from workbench.isolation.tensors import from_blob, to_blob
from workbench.isolation.wire import Blob
from workbench.problems.records import Precision

_MOST_DRAWN = 256 << 20
"""Bytes of inputs that are drawn for real where some of them are integers (ours)."""
_GROUP = 3e9, 8e6
_ALL = 6e9, 4e7
"""Matrix flops and elements of inputs and outputs, for one program and for all (ours): seconds."""


class _Full(Struct):
    """The reference at the full shape, between two jobs."""

    message: Prepare
    oracle: Oracle
    axes: list[Axis]
    chunks: list[torch.Tensor]
    ties: bool
    """Inputs hold equal numbers."""

    def rule(self, dtype: torch.dtype) -> Rule:
        """C and eps for an output of that dtype."""
        tf32 = self.message.precision is Precision.TF32
        return rule_for(dtype, self.message.tolerance, tf32=tf32)


def prepare(
    bench: JobContext,
    request: dict[str, Any],
    blobs: list[Blob],  # noqa: ARG001 -- a job's shape
) -> tuple[dict[str, Any], list[Blob]]:
    """Answer `Prepare`: find the axes at the smallest shape, make the contents of the full one."""
    message = decode(request, Prepare)
    small = Oracle(
        message.source, message.small, seed=message.seed, precision=message.precision, device="cpu"
    )
    small.perturb(message.seed)
    nest, inputs = small.draw(message.seed)
    _, others = small.draw(message.seed + 1)
    answer = small.native(nest, inputs)
    if _unlike(inputs, message.input_entries) or _unlike(answer.outputs, message.output_entries):
        return encode(Prepared(why_not="its tensors have other ranks at the smallest shape")), []
    sizes = Sizes(message.input_entries, message.output_entries)
    axes = find_axes(lambda given: small.native(nest, given).outputs, inputs, others, sizes)
    if not axes and _dear(message, _cost(message, [], {}), *_GROUP):
        return encode(Prepared(why_not="no part of its outputs can be worked out alone")), []
    full = Oracle(
        message.source, message.full, seed=message.seed, precision=message.precision, device="cpu"
    )
    chunks = _input_chunks(message, full, inputs)
    if chunks is None:
        return encode(Prepared(why_not="its integer inputs are too large to draw")), []
    state = _state_chunks(message, full, small.weights)
    bench.state["full"] = _Full(message, full, axes, chunks, any(map(tied, inputs)))
    reply = Prepared(
        state=tuple(state),
        aliased=tuple(answer.aliased),
        axes=tuple(f"output {o} dim {d}" for axis in axes for o, d in axis.outputs.items()),
    )
    return encode(reply), [to_blob(chunk) for chunk in (*chunks, *state.values())]


def compare(
    bench: JobContext, request: dict[str, Any], blobs: list[Blob]
) -> tuple[dict[str, Any], list[Blob]]:
    """Answer `CompareStored`: work out what the groups wrote, as far as it is affordable."""
    full = bench.state["full"]
    if not isinstance(full, _Full):
        raise TypeError("the full shape is not prepared")
    books = _Books(len(full.message.output_entries))
    for part in _affordable(full, decode(request, CompareStored).groups, blobs, books):
        books.enter(part)
    reply = ComparedStored(
        measured=tuple(books.measured),
        tentative=tuple(books.tentative),
        programs=len(books.programs),
        elements=tuple(books.elements),
        right_as_filled=books.right_as_filled,
        right_unwritten=books.right_unwritten,
        right_at_ends=books.right_at_ends,
        too_dear=books.too_dear,
    )
    return encode(reply), []


def _affordable(
    full: _Full, groups: Sequence[Group], blobs: list[Blob], books: "_Books"
) -> "Iterator[_Part]":
    """The parts of the reference that are worked out, in an order drawn from the secret seed."""
    numbered = list(enumerate(groups))
    random.Random(full.message.seed).shuffle(numbered)  # noqa: S311 -- keyed by the secret seed
    spent = 0.0, 0.0
    # Each program's share: one that runs because it goes its own way must not be crowded out.
    count = max(len(groups), 1)
    each = min(_GROUP[0], _ALL[0] / count), min(_GROUP[1], _ALL[1] / count)
    for number, group in numbered:
        places, values = from_blob(blobs[2 * number]), from_blob(blobs[2 * number + 1])
        part = _Part(full, group, places, values, each)
        flops, size = (a + b for a, b in zip(spent, part.cost(), strict=True))
        if _dear(full.message, part.cost(), *_GROUP) or flops > _ALL[0] or size > _ALL[1]:
            books.too_dear += 1
            continue
        spent = flops, size
        yield part


class _Books:
    """What parts measured."""

    def __init__(self, outputs: int) -> None:
        self.measured: list[Measured] = []
        self.tentative: list[Measured] = []
        self.programs: set[tuple[int, int, int]] = set()
        self._places: list[list[torch.Tensor]] = [[] for _ in range(outputs)]
        self.right_as_filled: dict[int, float] = {}
        self.right_unwritten: dict[int, float] = {}
        self.right_at_ends: dict[int, float] = {}
        self.too_dear = 0

    def enter(self, part: "_Part") -> None:
        """Measure one part, if that can be done."""
        group = part.group
        if group.filled:
            rights = self.right_unwritten if group.unwritten else self.right_as_filled
            rights = self.right_at_ends if group.at_ends else rights
            rights[group.output] = part.right()
            return
        found = part.measured()
        if found is None:
            return
        if group.tentative:
            self.tentative.append(found)
            return
        self.measured.append(found)
        self.programs.add(group.program)
        self._places[group.output].append(part.places)

    @property
    def elements(self) -> list[int]:
        """Per output: how many of its elements were compared, each counted once."""
        return [len(torch.unique(torch.cat(one))) if one else 0 for one in self._places]


class _Part:
    """What one program stored of one output, with the part of the reference that it needs."""

    def __init__(
        self,
        full: _Full,
        group: Group,
        places: torch.Tensor,
        values: torch.Tensor,
        share: tuple[float, float],
    ) -> None:
        self._full = full
        self.group = group
        self._output = group.output
        entry = full.message.output_entries[group.output]
        index = np.unravel_index(places.numpy(), entry.shape) if entry.shape else ()
        self._index = [torch.from_numpy(along.copy()) for along in index]
        self._values = values
        self._axes = [axis for axis in full.axes if group.output in axis.outputs]
        self._rng = random.Random(full.message.seed ^ group.count)  # noqa: S311 -- as above
        while _dear(full.message, self.cost(), *share) and self._narrow():
            pass

    @property
    def count(self) -> int:
        """Elements that are compared."""
        return int(self._values.numel())

    @property
    def places(self) -> torch.Tensor:
        """Flat places in the output, row-major, of what is compared."""
        shape = self._full.message.output_entries[self._output].shape
        if not shape:
            return torch.zeros(1, dtype=torch.int64)
        flat = np.ravel_multi_index([along.numpy() for along in self._index], shape)
        return torch.from_numpy(np.asarray(flat, dtype=np.int64))

    def _along(self, axis: Axis) -> torch.Tensor:
        """The distinct indices along an axis, in order."""
        found: torch.Tensor = torch.unique(self._index[axis.outputs[self._output]])
        return found

    def cost(self) -> tuple[float, float]:
        """Matrix flops, and elements of inputs and outputs, of the part."""
        counts = {id(axis): len(self._along(axis)) for axis in self._axes}
        return _cost(self._full.message, self._axes, counts)

    def _narrow(self) -> bool:
        """Drop half of the indices along the axis that has most; False when none has two."""
        along = max((self._along(axis) for axis in self._axes), key=len, default=torch.zeros(0))
        axis = next((a for a in self._axes if len(self._along(a)) == len(along)), None)
        if axis is None or len(along) < 2:
            return False
        kept = sorted(self._rng.sample(along.tolist(), len(along) // 2))
        lit = torch.isin(self._index[axis.outputs[self._output]], torch.tensor(kept))
        self._index = [index[lit] for index in self._index]
        self._values = self._values[lit]
        return True

    def _cut(self) -> tuple[dict[int, torch.Tensor], list[torch.Tensor], list[torch.Tensor]]:
        """Indices along each axis, the inputs cut to them, the elements' index in the part."""
        message = self._full.message
        along = {id(axis): self._along(axis) for axis in self._axes}
        inputs = []
        for place, (entry, chunk) in enumerate(
            zip(message.input_entries, self._full.chunks, strict=True)
        ):
            picks = {
                axis.inputs[place]: along[id(axis)] for axis in self._axes if place in axis.inputs
            }
            inputs.append(part_of(entry, chunk, picks))
        index = list(self._index)
        for axis in self._axes:
            dim = axis.outputs[self._output]
            index[dim] = torch.searchsorted(along[id(axis)], index[dim])
        return along, inputs, index

    def right(self) -> float:
        """The share of the values that are the reference's, bit for bit or nearly."""
        message = self._full.message
        _, inputs, index = self._cut()
        native = self._full.oracle.native(message.inputs, inputs).outputs[self._output]
        near = torch.isclose(native[tuple(index)].double(), self._values.double())
        return float(near.double().mean())

    def measured(self) -> Measured | None:
        """How far the values are from the reference's.

        None where it cannot be told: of equal numbers several places may be right, and which other
        ones a row names is only known where all of it was stored; nor has a part of a choice that
        the reference does not order any place of its own.
        """
        full, message = self._full, self._full.message
        along, inputs, index = self._cut()
        native = full.oracle.native(message.inputs, inputs)
        gold = full.oracle.gold(message.inputs, inputs, native)
        got = [output.clone() for output in native.outputs]
        got[self._output][tuple(index)] = self._values.to(got[self._output].dtype)
        whole = self.count >= got[self._output].numel()
        if any(not choice.sorted for choice in native.choices):
            if not whole:
                return None
            got = with_its_values(native.choices, native.outputs, got, self._output)
        comparison = Comparison(
            Answered(message.inputs, inputs, native, gold, whole=whole),
            rule=full.rule,
            selections=message.selections,
            oracle=full.oracle,
        )
        found = comparison.measured(got)[self._output]
        if found.wrong_exact and full.ties and (native.choices or message.selections):
            return None
        return self._in_whole(found, along)

    def _in_whole(self, found: Measured, along: Mapping[int, torch.Tensor]) -> Measured:
        """The worst element's index in the whole output."""
        if not found.index:
            return found
        index = list(found.index)
        for axis in self._axes:
            dim = axis.outputs[self._output]
            index[dim] = int(along[id(axis)][index[dim]])
        return structs.replace(found, index=tuple(index))


def _cost(message: Prepare, axes: list[Axis], counts: Mapping[int, int]) -> tuple[float, float]:
    """Matrix flops, and elements of inputs and outputs, when axes are cut to this many indices."""
    share = 1.0
    lengths: dict[tuple[str, int, int], int] = {}
    for axis in axes:
        place, dim = next(iter(axis.outputs.items()))
        share *= counts[id(axis)] / message.output_entries[place].shape[dim]
        lengths |= {("in", i, d): counts[id(axis)] for i, d in axis.inputs.items()}
        lengths |= {("out", o, d): counts[id(axis)] for o, d in axis.outputs.items()}
    size = 0.0
    for kind, entries in (("in", message.input_entries), ("out", message.output_entries)):
        for place, entry in enumerate(entries):
            shape = [lengths.get((kind, place, d), n) for d, n in enumerate(entry.shape)]
            size += math.prod(shape)
    return message.flops * share, size


def _dear(
    message: Prepare, cost: tuple[float, float], most_flops: float, most_elements: float
) -> bool:
    """Whether a part costs too much; weights exist in any case."""
    own = sum(math.prod(entry.shape) for entry in message.state)
    return cost[0] > most_flops or cost[1] > max(most_elements, min(own, 4 * most_elements))


def _unlike(small: list[torch.Tensor], full: tuple[TensorEntry, ...]) -> bool:
    return [t.dim() for t in small] != [len(entry.shape) for entry in full]


def _input_chunks(
    message: Prepare, full: Oracle, small: list[torch.Tensor]
) -> list[torch.Tensor] | None:
    """Contents of the inputs: numbers like those of the smallest shape, integers as drawn."""
    drawn: list[torch.Tensor] = []
    if not all(t.is_floating_point() for t in small):
        if sum(entry.bytes for entry in message.input_entries) > _MOST_DRAWN:
            return None
        drawn = full.draw(message.seed)[1]
    if message.crowded:
        generator = torch.Generator().manual_seed(message.seed)
        for tensor in drawn:
            crowd(tensor, generator)
    chunks = []
    for place, entry in enumerate(message.input_entries):
        if small[place].is_floating_point():
            chunks.append(chunk_for(entry, small[place], message.seed + 2 + place, 1.0))
        else:
            chunks.append(drawn[place].contiguous().reshape(-1))
    return chunks


def _state_chunks(
    message: Prepare, full: Oracle, small: dict[str, torch.Tensor]
) -> dict[str, torch.Tensor]:
    """Contents of the state, put into the reference as well.

    Matrices keep the variance that they give their input: numbers of a smaller one are scaled down.
    """
    chunks = {}
    state = state_of(full.model)
    for place, entry in enumerate(message.state):
        own, like = state[entry.name], small.get(entry.name)
        if own.is_floating_point() and like is not None and own.numel():
            scale = 1.0
            if own.dim() > 1 and like.numel():
                scale = math.sqrt(like.numel() / like.shape[0] / (own.numel() / own.shape[0]))
            chunk = chunk_for(entry, like, message.seed + 1000 + place, scale)
            own.data.copy_(part_of(entry, chunk, {}))
        else:
            chunk = own.detach().contiguous().reshape(-1)
        chunks[entry.name] = chunk
    full.weights = {name: t.clone() for name, t in state_of(full.model).items()}
    return chunks
