"""Tensors as plain bytes and back, inside workers: the only place where isolation knows torch."""

import msgspec
import torch
from msgspec import Struct

from workbench.isolation.wire import Blob, WireFault


class IpcHandle(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What CUDA and torch need to open another process's storage: plain values, no pickle."""

    handle: bytes
    storage_bytes: int
    offset_bytes: int
    """Offset of the storage in its allocation."""
    ref_handle: bytes
    ref_offset: int
    event_handle: bytes
    event_sync: bool
    element_offset: int
    """Offset of the tensor in its storage, in elements."""


def to_blob(tensor: torch.Tensor, *, share: bool = False) -> Blob:
    """The tensor's bytes, brought to the host; with `share`, a CUDA IPC handle instead of bytes.

    Shape and strides are kept, so what lies between strided elements is sent too. A shared tensor
    must be kept alive by this worker until the other side has closed it; the other side can write
    to it. Raises WireFault for tensors without plain strided storage (sparse, quantized).
    """
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise WireFault(f"a {tensor.layout} tensor cannot cross")
    plain = tensor.detach().resolve_conj().resolve_neg()
    if share:
        return _shared(plain)
    host = plain.cpu() if plain.is_cuda else plain
    span = _span(host)
    return Blob(
        dtype=str(host.dtype).removeprefix("torch."),
        shape=tuple(host.shape),
        strides=tuple(host.stride()),
        data=span.numpy().data if span.numel() else b"",
    )


def from_blob(blob: Blob, device: str | torch.device = "cpu") -> torch.Tensor:
    """A tensor of the blob's dtype, shape and strides on `device`, on memory of its own.

    A `cuda-ipc` blob is opened where it lies, whatever `device` says: nothing is copied, and
    writing to it writes to the sender's memory. Raises WireFault when the blob is unlawful.
    """
    dtype = getattr(torch, blob.dtype, None)
    span = blob.span_bytes()
    if not isinstance(dtype, torch.dtype):
        raise WireFault(f"this torch has no dtype {blob.dtype}")
    if blob.kind == "cuda-ipc":
        return _opened(blob, dtype)
    # Fresh memory, because a slice of a message may lie at any address.
    raw = torch.empty(span, dtype=torch.uint8)
    if span:
        given = memoryview(blob.data)
        buffer = bytearray(given) if given.readonly else given
        raw.copy_(torch.frombuffer(buffer, dtype=torch.uint8))
    flat = raw.to(device).view(dtype)
    return flat.as_strided(blob.shape, blob.strides)


def _span(host: torch.Tensor) -> torch.Tensor:
    """The bytes from the first to the last element, as a flat uint8 tensor on the same memory."""
    if not host.numel():
        return torch.empty(0, dtype=torch.uint8)
    last = sum((n - 1) * s for n, s in zip(host.shape, host.stride(), strict=True))
    flat = host.as_strided((last + 1,), (1,), host.storage_offset())
    return flat.view(torch.uint8)


def _shared(tensor: torch.Tensor) -> Blob:
    if not tensor.is_cuda:
        raise WireFault("only CUDA tensors can be shared")
    _, handle, size, offset, ref, ref_offset, event, sync = tensor.untyped_storage()._share_cuda_()  # type: ignore[no-untyped-call]  # torch does not type it
    shared = IpcHandle(
        handle=handle,
        storage_bytes=size,
        offset_bytes=offset,
        ref_handle=ref,
        ref_offset=ref_offset,
        event_handle=event,
        event_sync=sync,
        element_offset=int(tensor.storage_offset()),
    )
    return Blob(
        dtype=str(tensor.dtype).removeprefix("torch."),
        shape=tuple(tensor.shape),
        strides=tuple(tensor.stride()),
        data=msgspec.msgpack.encode(shared),
        kind="cuda-ipc",
    )


def _opened(blob: Blob, dtype: torch.dtype) -> torch.Tensor:
    try:
        shared = msgspec.msgpack.decode(blob.data, type=IpcHandle)
    except msgspec.DecodeError as fault:
        raise WireFault(f"a device handle that does not decode: {fault}") from fault
    item = dtype.itemsize
    if shared.element_offset * item + blob.span_bytes() > shared.storage_bytes:
        raise WireFault("a shared tensor that reaches past its storage")
    torch.cuda.init()  # type: ignore[no-untyped-call] # untyped in torch
    storage = torch.UntypedStorage._new_shared_cuda(  # noqa: SLF001 -- torch's own door for IPC
        torch.cuda.current_device(),
        shared.handle,
        shared.storage_bytes,
        shared.offset_bytes,
        shared.ref_handle,
        shared.ref_offset,
        shared.event_handle,
        shared.event_sync,
    )
    empty = torch.empty(0, dtype=dtype, device=storage.device)
    return empty.set_(storage, shared.element_offset, blob.shape, blob.strides)
