"""The bytes between judge and worker: framed, sized before they are read, never unpickled.

A frame is a fixed header (magic, 16-byte nonce of this turn, length of the head, length of the
data), a msgpack head and the blobs' bytes one after another. The reader knows both lengths and
checks them against its caps before it reserves memory.
"""

import struct
from collections.abc import Sequence
from math import prod
from typing import Any, Literal

import msgspec
from msgspec import Struct

HEADER = struct.Struct("<4s16sIQ")
MAGIC = b"WB1\n"
NONCE_BYTES = 16
HEAD_CAP = 64 << 20
"""Bytes of one msgpack head: a trace of some hundred thousand launches fits."""

ITEM_BYTES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2": 1,
    "float8_e5m2fnuz": 1,
    "float8_e8m0fnu": 1,
    "complex64": 8,
    "complex128": 16,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint64": 8,
    "uint32": 4,
    "uint16": 2,
    "uint8": 1,
    "bool": 1,
}
"""Every dtype that crosses, by torch's name without `torch.`, with its bytes per element."""


class WireFault(Exception):
    """The bytes do not follow the protocol."""


class Blob(Struct, kw_only=True):
    """One tensor as data.

    `host`: `data` holds the elements from the first to the last that shape and strides reach, so
    `span_bytes()` bytes (a transposed tensor keeps its order, an expanded one stays small).
    `cuda-ipc`: `data` is a handle on another process's GPU memory, opened by `tensors.from_blob`;
    whatever is shared so can be written by the worker it is shared with.
    """

    dtype: str
    """Name without `torch.`: a key of `ITEM_BYTES`."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """Strides in elements, one per dimension, none negative."""
    data: bytes | memoryview
    kind: Literal["host", "cuda-ipc"] = "host"

    def span_bytes(self) -> int:
        """Bytes from the first to the last element, 0 if there is none. WireFault if unlawful."""
        return _span_bytes(self.dtype, self.shape, self.strides)


class Reply(Struct, frozen=True, kw_only=True):
    """What a job answered: claims of the worker, decoded but not believed."""

    body: dict[str, Any]
    blobs: tuple[Blob, ...] = ()


class BlobHead(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A blob without its bytes, as it stands in a head."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    kind: Literal["host", "cuda-ipc"]
    bytes: int


class Hello(Struct, frozen=True, kw_only=True, tag="hello", forbid_unknown_fields=True):
    """The worker's first word: the layers of its sandbox as it applied them."""

    layers: list[tuple[str, bool, str]]
    pid: int = 0
    """The worker's own pid, which differs from the judge's view in a PID namespace."""
    fault: str = ""
    """Why the worker cannot serve (the GPU did not start); empty when it can."""


class Call(Struct, frozen=True, kw_only=True, tag="call", forbid_unknown_fields=True):
    """Judge to worker: run `job` (`module:function`) on `body` and `blobs`."""

    job: str
    body: dict[str, Any]
    blobs: list[BlobHead]


class Answer(Struct, frozen=True, kw_only=True, tag="answer", forbid_unknown_fields=True):
    """Worker to judge: what the job returned."""

    body: dict[str, Any]
    blobs: list[BlobHead]


class Failure(Struct, frozen=True, kw_only=True, tag="failure", forbid_unknown_fields=True):
    """Worker to judge: what the job raised."""

    kind: str
    message: str
    line: int | None
    trace: str


FromWorker = Hello | Answer | Failure


def _span_bytes(dtype: str, shape: Sequence[int], strides: Sequence[int]) -> int:
    item = ITEM_BYTES.get(dtype)
    if item is None:
        raise WireFault(f"unknown dtype {dtype[:40]!r}")
    if len(shape) != len(strides) or len(shape) > 64:
        raise WireFault(f"{len(shape)} sizes but {len(strides)} strides")
    if min((*shape, *strides), default=0) < 0:
        raise WireFault("a negative size or stride")
    if prod(shape) == 0:
        return 0
    return item * (1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)))


def heads(blobs: Sequence[Blob]) -> list[BlobHead]:
    """The blobs without their bytes. WireFault where bytes and description do not agree."""
    described = []
    for blob in blobs:
        size = memoryview(blob.data).nbytes
        head = BlobHead(
            dtype=blob.dtype, shape=blob.shape, strides=blob.strides, kind=blob.kind, bytes=size
        )
        _check(head)
        described.append(head)
    return described


def _check(head: BlobHead) -> None:
    expected = _span_bytes(head.dtype, head.shape, head.strides)
    if head.kind == "host" and head.bytes != expected:
        raise WireFault(f"a blob of {head.bytes} bytes where its strides reach {expected}")
    if head.kind == "cuda-ipc" and not 0 < head.bytes <= 4096:
        raise WireFault(f"a device handle of {head.bytes} bytes")


def frame(
    nonce: bytes, message: Call | FromWorker, blobs: Sequence[Blob] = ()
) -> list[bytes | memoryview]:
    """The pieces of one frame in sending order; blob bytes are not copied."""
    head = msgspec.msgpack.encode(message)
    if len(head) > HEAD_CAP:
        raise WireFault(f"a message body of {len(head)} bytes; at most {HEAD_CAP}")
    pieces = [memoryview(blob.data).cast("B") for blob in blobs]
    total = sum(piece.nbytes for piece in pieces)
    return [HEADER.pack(MAGIC, nonce, len(head), total) + head, *(p for p in pieces if p.nbytes)]


def read_header(raw: bytes, nonce: bytes, data_cap: int) -> tuple[int, int]:
    """Lengths of head and data. WireFault on a wrong mark, a wrong turn or too many bytes."""
    magic, echoed, head_bytes, data_bytes = HEADER.unpack(raw)
    if magic != MAGIC:
        raise WireFault("bytes that are not a frame")
    if echoed != nonce:
        raise WireFault("a frame that answers no question of this turn")
    if head_bytes > HEAD_CAP or data_bytes > data_cap:
        raise WireFault(f"a frame of {head_bytes} + {data_bytes} bytes, beyond the limit")
    return head_bytes, data_bytes


def cut(described: Sequence[BlobHead], data: memoryview) -> tuple[Blob, ...]:
    """The blobs that `data` holds, as views. WireFault where the parts do not add up."""
    if sum(head.bytes for head in described) != data.nbytes:
        raise WireFault("blobs that do not add up to the frame's data")
    blobs, at = [], 0
    for head in described:
        _check(head)
        blobs.append(
            Blob(
                dtype=head.dtype,
                shape=head.shape,
                strides=head.strides,
                kind=head.kind,
                data=data[at : at + head.bytes],
            )
        )
        at += head.bytes
    return tuple(blobs)


def decode_from_worker(raw: bytes | memoryview) -> FromWorker:
    """A worker's head. WireFault on anything that is not exactly one of its three messages."""
    try:
        return msgspec.msgpack.decode(raw, type=FromWorker)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise WireFault(f"a head that does not decode: {fault}") from fault


def decode_call(raw: bytes | memoryview) -> Call:
    """A judge's head."""
    return msgspec.msgpack.decode(raw, type=Call)
