"""What the candidate's worker does for the full shape: trace a sample, tell what it stored.

Runs in candidate workers only; what it says can convict a candidate or leave a doubt.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from workbench.gate.correctness.candidate_job import foreign
from workbench.gate.correctness.full.final import Final, count_in, final_values, source_of
from workbench.gate.correctness.full.protocol import Group, TracedFull, TraceFull
from workbench.gate.correctness.layout import entry, overlap
from workbench.gate.correctness.nest import Nest, flatten, tensor_paths
from workbench.gate.correctness.protocol import OutputFacts, decode, encode
from workbench.isolation.context import JobContext
from workbench.isolation.tensors import from_blob, to_blob
from workbench.isolation.wire import Blob
from workbench.kernels.jobs import Called, traced
from workbench.kernels.lazy_contents import Contents
from workbench.kernels.storages import storage_address
from workbench.kernels.trace_values import Slot

_DRAWN = 64
"""Places of an output that host code filled (ours): a share that is told to a sixteenth."""
_LOOKED_AT = 2048
"""Places of such an output that are asked for programs which write there (ours)."""
_AT_ENDS = 32
"""As many more at either end of each dimension, where masks are (ours)."""


def trace(
    bench: JobContext, request: dict[str, Any], blobs: list[Blob]
) -> tuple[dict[str, Any], list[Blob]]:
    """Answer `TraceFull`. Raises what the candidate's own host code raises."""
    message = decode(request, TraceFull)
    chunks = [from_blob(blob) for blob in blobs]
    state = dict(zip(message.state, chunks[message.inputs :], strict=True))
    called = traced(bench, message.request, Contents(chunks[: message.inputs], state))
    if called.answer.fault is not None:
        return encode(TracedFull(traced=called.answer)), []
    nest, tensors = flatten(called.out, foreign)
    seed = message.request.sample_seed
    told = [*_stored(called, tensors, seed), *_filled(called, tensors, seed)]
    all_ways, uniform, stood_for, followed = _ways(called, tensors)
    book = called.book
    blind = book is not None and any(one.blind for one in book.coverage.values())
    reply = TracedFull(
        traced=called.answer,
        outputs=nest,
        facts=_facts(called, nest, tensors),
        groups=tuple(group for group, _, _ in told),
        written=tuple(_written(called, tensor) for tensor in tensors),
        all_ways=all_ways,
        uniform=uniform,
        stood_for=stood_for,
        followed=followed,
        blind=blind,
        changing=called.changing,
    )
    return encode(reply), [to_blob(t) for _, places, values in told for t in (places, values)]


_Told = tuple[Group, torch.Tensor, torch.Tensor]
"""What one program left in one output: its description, flat places, values."""


def _stored(called: Called, tensors: list[torch.Tensor], seed: int) -> Iterator[_Told]:
    """Final values of both calls; where an output has none, those that rest on flags alone."""
    looks = _left(called, tensors, seed)
    later = called.further()
    outputs = [] if later is None else flatten(later.out, foreign)[1]
    if later is not None and len(outputs) == len(tensors):
        looks += _left(later, outputs, seed)
    found = {number for number, tentative, finals in looks if finals and not tentative}
    for number, tentative, finals in sorted(looks, key=lambda look: look[1]):
        for final in () if tentative and number in found else finals:
            count = final.values.numel()
            group = Group(output=number, program=final.program, count=count, tentative=tentative)
            yield group, final.places, final.values


def _left(
    called: Called, tensors: list[torch.Tensor], seed: int
) -> list[tuple[int, bool, list[Final]]]:
    """What programs of one call left in each output: its number, whether that rests on flags, and
    the values, which are copies.
    """
    return [
        (number, tentative, list(final_values(called, tensor, seed, tentative)))
        for tentative in (False, True)
        for number, tensor in enumerate(tensors)
    ]


def _filled(called: Called, tensors: list[torch.Tensor], seed: int) -> Iterator[_Told]:
    """Some places of each output that host code had filled with zeros: where it is known who
    writes there, those that nobody does.
    """
    for number, tensor in enumerate(tensors):
        if not _is_filled(called, tensor):
            continue
        generator = torch.Generator().manual_seed(seed)
        places = torch.randint(tensor.numel(), (_DRAWN,), generator=generator)
        free = _unwritten(called, tensor, generator)
        ends = _looked_at(tuple(tensor.shape), generator)[_LOOKED_AT:]
        looks = [(places, False), (ends, True)] if free is None else [(free, False)]
        for asked, at_ends in looks:
            group = Group(
                output=number,
                program=(-1, -1, -1),
                count=asked.numel(),
                filled=True,
                unwritten=free is not None,
                at_ends=at_ends,
            )
            yield group, asked, torch.zeros(asked.numel(), dtype=tensor.dtype)


def _unwritten(
    called: Called, tensor: torch.Tensor, generator: torch.Generator
) -> torch.Tensor | None:
    """Flat places that no kernel of the call writes: some, and those found at the ends of a
    dimension; None where none are known.
    """
    places = _looked_at(tuple(tensor.shape), generator)
    source, book = source_of(called, tensor), called.book
    if book is None:
        return None
    index = torch.unravel_index(places, tuple(source.shape)) if source.dim() else ()
    offsets = torch.full_like(places, int(source.storage_offset()))
    for along, stride in zip(index, source.stride(), strict=True):
        offsets += along * stride
    wanted = offsets.numpy() * source.element_size()
    free = np.ones(wanted.shape, dtype=np.bool_)
    for slot in book.slots_of(source):
        seen = dict(book.footprints.get(slot, ()))
        coverage = book.coverage.get(slot.launch)
        if coverage is None:
            own = [offsets.astype(np.int64) for offsets in seen.values()]
            covered = np.isin(wanted, np.concatenate(own)) if own else ~free
            complete = called.answer.traces[slot.launch].sampled == len(seen)
        else:
            lit = coverage.covers(seen, storage_address(source), wanted)
            complete, covered = lit is not None, free if lit is None else lit
        if not complete:
            return None
        free &= ~covered
    free[:_LOOKED_AT] &= free[:_LOOKED_AT].cumsum() <= _DRAWN
    return places[torch.from_numpy(free)] if free.any() else None


def _looked_at(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Flat places of a tensor, drawn: `_LOOKED_AT` anywhere, then at the ends of dimensions."""
    count = _LOOKED_AT + 2 * _AT_ENDS * len(shape)
    index = [torch.randint(size, (count,), generator=generator) for size in shape]
    for dim, size in enumerate(shape):
        first = _LOOKED_AT + 2 * _AT_ENDS * dim
        index[dim][first : first + _AT_ENDS] = 0
        index[dim][first + _AT_ENDS : first + 2 * _AT_ENDS] = size - 1
    flat = torch.zeros(count, dtype=torch.int64)
    for along, size in zip(index, shape, strict=True):
        flat = flat * size + along
    return flat


def _written(called: Called, tensor: torch.Tensor) -> float | None:
    """The share of an output that kernels write, scaled from the programs that ran."""
    source = source_of(called, tensor)
    book = called.book
    if book is None or not source.numel():
        return None
    slots = book.slots_of(source)
    if not slots and (called.host.filled(source) or _is_given(called, source)):
        return None
    if book.using_updates.intersection(slots):
        return None  # who stores depends on who comes last
    count = sum(_count(called, slot, source) for slot in slots)
    distinct = [n for n, s in zip(source.shape, source.stride(), strict=True) if s]
    return count / max(math.prod(distinct), 1)


def _count(called: Called, slot: Slot, source: torch.Tensor) -> float:
    """How many elements of a tensor one launch writes: path by path where every path
    ran, else in proportion to the programs that did."""
    book, trace = called.book, called.answer.traces[slot.launch]
    seen = dict(() if book is None else book.footprints.get(slot, ()))
    counts = {program: count_in(source, offsets) for program, offsets in seen.items()}
    coverage = None if book is None else book.coverage.get(slot.launch)
    if coverage is not None and coverage.complete:
        return sum(
            (share.places or 0.0) * counts.get(program, 0)
            for program, share in coverage.shares.items()
        )
    ran = min(max(trace.sampled, len(seen)), trace.programs)
    return sum(counts.values()) * trace.programs / max(ran, 1)


def _ways(called: Called, tensors: list[torch.Tensor]) -> tuple[bool, bool, float, int]:
    """Whether programs that ran stand for all that write the outputs, whether one of each launch
    does for all that were drawn, for what share of them, and how many were asked, if not all.
    """
    book = called.book
    if book is None:
        return False, False, 0.0, 0
    launches = {s.launch for t in tensors for s in book.slots_of(source_of(called, t))}
    sampled = [book.coverage[launch] for launch in launches if launch in book.coverage]
    drawn = [one.followed for one in sampled if one.followed < math.prod(one.grid)]
    share = min((one.share for one in sampled), default=1.0)
    uniform = all(one.uniform for one in sampled)
    return all(one.complete for one in sampled), uniform, share, min(drawn, default=0)


def _is_filled(called: Called, tensor: torch.Tensor) -> bool:
    """Whether an output was zeros before its kernels ran."""
    source = source_of(called, tensor)
    book = called.book
    if book is None or not tensor.numel() or not book.slots_of(source):
        return False
    return called.host.knows(source) and not called.host.filled(source)


def _is_given(called: Called, tensor: torch.Tensor) -> bool:
    place = storage_address(tensor)
    return any(storage_address(t) == place for t in called.inputs)


def _facts(called: Called, nest: Nest, tensors: list[torch.Tensor]) -> tuple[OutputFacts, ...]:
    owners = [(f"input {i}", t) for i, t in enumerate(called.inputs)]
    return tuple(
        OutputFacts(
            entry=entry(path, tensor),
            device=str(tensor.device),
            storage_bytes=tensor.untyped_storage().nbytes(),
            offset_bytes=int(tensor.storage_offset()) * tensor.element_size(),
            overlaps=tuple(name for name, t in owners if overlap(tensor, t)),
        )
        for path, tensor in zip(tensor_paths(nest), tensors, strict=True)
    )
