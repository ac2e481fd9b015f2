"""Start what a worker computes with, inside its sandbox, so that failing is the machine's fault."""

import sys
from typing import Any

from workbench.isolation.context import JobContext
from workbench.isolation.records import Limits
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
    blobs: list[Blob],  # noqa: ARG001  # a job's shape
) -> tuple[dict[str, Any], list[Blob]]:
    """Job: what torch's allocator may take from now on, bytes."""
    _cap(bench.device, int(request["bytes"]))
    return {}, []


def _cap(device: str, size: int) -> None:
    import torch

    total = torch.cuda.get_device_properties(device).total_memory
    torch.cuda.set_per_process_memory_fraction(min(1.0, size / total), device)
