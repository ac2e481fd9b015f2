"""The reference worker's jobs while candidates are timed: contents, answers, its own time.

Works on the reference that `reference_job` opened. No side ever sees the same contents twice. Where
drawing is quick, each turn gets a new draw. Where it is slow, the sets of a ring are changed before
each use, so that an answer cached by address or by fingerprint is wrong.
"""

import random
import time
from typing import Any

import torch

from workbench.gate.correctness.cases import Case
from workbench.gate.correctness.layout import window
from workbench.gate.correctness.nest import Nest
from workbench.gate.correctness.protocol import Compare, Made, decode, encode
from workbench.gate.correctness.reference_job import (
    Bench,
    answer,
    compare,
    fill_buffers,
    reference_of,
    travelling,
)
from workbench.gate.correctness.values import apply_case
from workbench.gate.timing.clock import Clock
from workbench.gate.timing.ring_protocol import (
    Advance,
    Advanced,
    Prepare,
    Prepared,
    Screened,
    Take,
    Timed,
    TimeNative,
    Verify,
)
from workbench.gate.timing.screen import Screen
from workbench.isolation.context import JobContext
from workbench.isolation.tensors import from_blob
from workbench.isolation.wire import Blob

QUICK_SECONDS = 0.05
"""A draw that takes no longer is repeated for every turn (ours): 60 pairs then wait 3 s for draws.
"""
_PREPARING_SECONDS = 10.0
_FREE_SHARE = 0.25
"""Share of the free memory that the ring may take."""
_LEAST_SETS, _MOST_SETS = 2, 8
_STIRRED = 16
"""Pairs of elements of each tensor that are swapped before a kept set is used again."""

_HOST_BYTES = 1 << 30
"""Memory that counts as free where there is no device."""


class Ring:
    """Input sets, and where each side receives them."""

    def __init__(self, reference: Bench, seed: int) -> None:
        self.reference = reference
        self.clock = Clock(reference.device)
        self.lent: dict[str, list[torch.Tensor]] = {}
        """Buffers by side, guards included; empty on the CPU."""
        self.made: Made | None = None
        """Answers to the present contents, once they were asked for."""
        self._eager: list[torch.Tensor] | None = None
        """Eager's outputs on the present contents, once they were asked for."""
        self._screen: Screen | None = None
        self._at = 0
        # The first draw also includes lazy initialization.
        self._sets = [self._draw(seed)]
        began = time.perf_counter()
        self._sets = [self._draw(seed + 1)]
        seconds = time.perf_counter() - began
        self.fresh = seconds <= QUICK_SECONDS
        """Every turn draws a new set; otherwise kept ones are changed a little before each use."""
        if not self.fresh:
            size = sum(t.numel() * t.element_size() for t in self.inputs)
            wanted = ring_size(size, _free_bytes(reference.device), seconds)
            self._sets += [self._draw(seed + 1 + n) for n in range(1, wanted)]

    @property
    def nest(self) -> Nest:
        """The nesting of the present inputs."""
        return self._sets[self._at][0]

    @property
    def inputs(self) -> list[torch.Tensor]:
        """The present contents, in tensors of their own."""
        return self._sets[self._at][1]

    @property
    def sets(self) -> int:
        """Number of sets."""
        return len(self._sets)

    def advance(self, seed: int) -> None:
        """Go on to contents that no side has seen."""
        self.made = self.reference.call = self._eager = None
        if self.fresh:
            self._sets.clear()
            self._sets.append(self._draw(seed))
        else:
            self._at = (self._at + 1) % len(self._sets)
            stir(self.inputs, seed)

    def answered(self) -> Made:
        """The answers to the present contents."""
        if self.made is None:
            self.made = answer(self.reference, self.nest, self.inputs)
            if self._screen is None and self.reference.call is not None:
                self._screen = Screen(
                    self.reference.call,
                    self.reference.rule,
                    returns_only=not self.made.changes_state,
                )
        return self.made

    def outputs(self) -> list[torch.Tensor]:
        """Eager's outputs on the present contents."""
        if self._eager is None:
            self._eager = self.reference.oracle.native(self.nest, self.inputs).outputs
        return self._eager

    def near_eager(self, outputs: list[torch.Tensor]) -> bool:
        """Whether outputs of a call on the present contents pass the check against eager's."""
        if self._screen is None:
            return False
        return self._screen.passes(outputs, self.outputs())

    def _draw(self, seed: int) -> tuple[Nest, list[torch.Tensor]]:
        nest, drawn = self.reference.oracle.draw(seed)
        inputs = apply_case(Case.FRESH, drawn, None, seed)
        if self.reference.device != "cpu":
            torch.cuda.synchronize()
        return nest, inputs


def ring_size(set_bytes: int, free_bytes: int, draw_seconds: float) -> int:
    """Number of sets: as many as a share of the free memory and some seconds allow."""
    room = int(_FREE_SHARE * free_bytes) // max(set_bytes, 1)
    time_for = int(_PREPARING_SECONDS / draw_seconds) if draw_seconds > 0 else _MOST_SETS
    return max(_LEAST_SETS, min(_MOST_SETS, room, time_for))


def stir(tensors: list[torch.Tensor], seed: int) -> None:
    """Swap elements within each floating-point tensor, in place.

    The values keep their distribution, and every answer that depends on them changes. Integers
    stay: they may be indices whose order matters.
    """
    rng = random.Random(seed)  # noqa: S311 -- from the judge's secret seed
    for tensor in tensors:
        flat = window(tensor)
        if not tensor.is_floating_point() or flat.numel() < 2:
            continue
        count = min(_STIRRED, flat.numel() // 2)
        places = torch.tensor(rng.sample(range(flat.numel()), 2 * count), device=flat.device)
        one, other = places[:count], places[count:]
        values = flat[one]
        flat[one] = flat[other]
        flat[other] = values


def prepare(
    bench: JobContext,
    request: dict[str, Any],
    blobs: list[Blob],  # noqa: ARG001 -- a job's shape
) -> tuple[dict[str, Any], list[Blob]]:
    """Make the ring and the answers to its first set."""
    reference = reference_of(bench)
    ring = Ring(reference, decode(request, Prepare).seed)
    bench.state["ring"] = ring
    sms = l2_bytes = 0
    if bench.device != "cpu":
        properties = torch.cuda.get_device_properties(bench.device)
        sms, l2_bytes = properties.multi_processor_count, properties.L2_cache_size
    made = ring.answered()
    prepared = Prepared(made=made, sms=sms, l2_bytes=l2_bytes)
    _return_memory(bench)
    return encode(prepared), []


def take(
    bench: JobContext, request: dict[str, Any], blobs: list[Blob]
) -> tuple[dict[str, Any], list[Blob]]:
    """Keep the buffers that a side lends until its timing is over."""
    ring_of(bench).lent[decode(request, Take).side] = [from_blob(blob) for blob in blobs]
    return {}, []


def advance(
    bench: JobContext,
    request: dict[str, Any],
    blobs: list[Blob],  # noqa: ARG001 -- a job's shape
) -> tuple[dict[str, Any], list[Blob]]:
    """Go on to the next contents and bring them to the sides; as blobs where none lent buffers."""
    ring, message = ring_of(bench), decode(request, Advance)
    ring.advance(message.seed)
    for side in message.sides:
        if lent := ring.lent.get(side):
            fill_buffers(lent, ring.inputs)
    return encode(Advanced(inputs=ring.nest)), travelling(ring.reference, ring.inputs)


def answer_now(
    bench: JobContext,
    request: dict[str, Any],  # noqa: ARG001 -- a job's shape
    blobs: list[Blob],  # noqa: ARG001 -- a job's shape
) -> tuple[dict[str, Any], list[Blob]]:
    """The answers to the present contents."""
    return encode(ring_of(bench).answered()), []


def screen(
    bench: JobContext,
    request: dict[str, Any],  # noqa: ARG001 -- a job's shape
    blobs: list[Blob],
) -> tuple[dict[str, Any], list[Blob]]:
    """Check a side's outputs against eager's outputs on the same contents."""
    ring = ring_of(bench)
    outputs = [from_blob(blob, ring.reference.device) for blob in blobs]
    return encode(Screened(alike=ring.near_eager(outputs))), []


def verify(
    bench: JobContext, request: dict[str, Any], blobs: list[Blob]
) -> tuple[dict[str, Any], list[Blob]]:
    """Compare a side's outputs with the answers, by the correctness stage's rules."""
    ring = ring_of(bench)
    ring.reference.lent = ring.lent.get(decode(request, Verify).side, [])
    reply = compare(bench, encode(Compare(number=0, keep=False)), blobs)
    _return_memory(bench)
    return reply


def time_native(
    bench: JobContext,
    request: dict[str, Any],
    blobs: list[Blob],  # noqa: ARG001 -- a job's shape
) -> tuple[dict[str, Any], list[Blob]]:
    """Time one call of the reference, under the flags of its precision."""
    ring = ring_of(bench)
    bare = decode(request, TimeNative).bare
    reading = ring.reference.oracle.timed(ring.nest, ring.inputs, ring.clock, bare=bare)
    return encode(Timed(reading=reading)), []


def ring_of(bench: JobContext) -> Ring:
    """The ring that `prepare` made."""
    ring = bench.state["ring"]
    if not isinstance(ring, Ring):
        raise TypeError("the ring is not made")
    return ring


def _free_bytes(device: str) -> int:
    return int(torch.cuda.mem_get_info(device)[0]) if device != "cpu" else _HOST_BYTES


def _return_memory(bench: JobContext) -> None:
    """Free the scratch memory of the answers: the sides need it too."""
    if bench.device != "cpu":
        torch.cuda.empty_cache()
