"""Start what a worker computes with, inside its sandbox, so that failing is the machine's fault."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from workbench.isolation.context import JobContext
from workbench.isolation.records import Limits
from workbench.isolation.sharedfiles import counters, in_use
from workbench.isolation.wire import Blob


def start_device(device: str, limits: Limits) -> str:
    """Settle torch's threads, create the CUDA context and cap its memory; returns what failed.

    The context is made after the sandbox closed: the driver's own threads must not be left
    outside a Landlock domain, which a thread inherits only from its maker.
    """
    if "torch" not in sys.modules:
        return ""
    import torch

    torch.set_num_threads(limits.threads)
    if device == "cpu":
        return ""
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call] # untyped in torch
        if limits.device_bytes is not None:
            _cap(device, limits.device_bytes)
        torch.ones(1, device=device).add_(1)
        torch.cuda.synchronize(device)
    except (RuntimeError, AssertionError) as fault:
        # AssertionError: a torch built without CUDA.
        return f"{type(fault).__name__}: {fault}"
    return ""


def cap(
    bench: JobContext,
    request: dict[str, Any],
    blobs: list[Blob],  # noqa: ARG001 -- a job's shape
) -> tuple[dict[str, Any], list[Blob]]:
    """Job: what torch's allocator may take from now on, bytes."""
    _cap(bench.device, int(request["bytes"]))
    return {}, []


def forbid_programs(
    bench: JobContext,
    request: dict[str, Any],  # noqa: ARG001 -- a job's shape
    blobs: list[Blob],  # noqa: ARG001 -- a job's shape
) -> tuple[dict[str, Any], list[Blob]]:
    """Job: this process starts no other from now on; `ok`, or why it still may."""
    try:
        bench.forbid_exec()
    except OSError as fault:
        return {"ok": False, "detail": str(fault)[:300]}, []
    return {"ok": True, "detail": ""}, []


def close_shared_memory(
    bench: JobContext,
    request: dict[str, Any],  # noqa: ARG001 -- a job's shape
    blobs: list[Blob],  # noqa: ARG001 -- a job's shape
) -> tuple[dict[str, Any], list[Blob]]:
    """Job: this worker makes no more files in /dev/shm; `ok`, and in words what holds or why not.

    Torch makes its file of counters with the first tensor that it shares, and counts 10,000 in it
    (CudaIPCTypes.cpp); what the driver needs there is its secret. So both are asked first in a
    thread of its own, which alone is confined: where sharing fails in there, nothing is closed.
    """
    try:
        _share(bench.device, 1)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(_try_closed, bench).result()
        return {"ok": True, "detail": bench.close_shared_memory(_used())}, []
    except (OSError, RuntimeError) as fault:
        return {"ok": False, "detail": f"left open: {fault}"[:300]}, []


_TRIAL = 100
"""Tensors that are shared where no file can be made."""
_first_shared: list[object] = []
"""What keeps torch's file of counters in use for as long as the worker lives."""


def _used() -> list[Path]:
    named = {path for path, _ in counters([os.getpid()], 0.0)}
    return sorted(named | in_use())


def _try_closed(bench: JobContext) -> None:
    """Confine this thread, and share tensors from it. Raises what torch does, OSError."""
    bench.close_shared_memory(_used())
    _share(bench.device, _TRIAL)


def _share(device: str, count: int) -> None:
    if device == "cpu":
        return
    import torch

    from workbench.isolation.tensors import to_blob

    tensors = [torch.zeros(1, device=device) for _ in range(count)]
    for tensor in tensors:
        to_blob(tensor, share=True)
    torch.cuda.synchronize(device)
    _first_shared.append(tensors[0])


def _cap(device: str, size: int) -> None:
    import torch

    total = torch.cuda.get_device_properties(device).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, size / total), device)
