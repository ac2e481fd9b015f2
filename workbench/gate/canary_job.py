"""A short computation with a known result: whether a GPU still computes correctly.

Runs in trusted workers only, in a process of its own.
"""

import time
from typing import Any

import torch
from msgspec import to_builtins

from workbench.gate.canary_protocol import CanaryResult
from workbench.isolation.context import JobContext
from workbench.isolation.wire import Blob

_BYTES = 64 << 20
_PATTERN = 0x5A
_SIDE = 256
"""Side of the matrices of small integers: fp32 and TF32 are exact in any order of summation."""


def run_canary(
    bench: JobContext,
    request: dict[str, Any],  # noqa: ARG001 -- a job's shape
    blobs: list[Blob],  # noqa: ARG001 -- a job's shape
) -> tuple[dict[str, Any], list[Blob]]:
    """Fill and add up 64 MB, multiply two known matrices (gate protocol, section 10)."""
    began = time.perf_counter()
    wrong = _memory(bench.device) or _product(bench.device)
    return to_builtins(CanaryResult(wrong=wrong, seconds=time.perf_counter() - began)), []


def _memory(device: str) -> str:
    block = torch.full((_BYTES,), _PATTERN, dtype=torch.uint8, device=device)
    total = int(block.sum(dtype=torch.int64))
    if total != _BYTES * _PATTERN:
        return f"64 MB of {_PATTERN} add up to {total}, not {_BYTES * _PATTERN}"
    # Overwrite what is left in memory, so that no later process finds a candidate's data.
    if int(block.zero_().count_nonzero()):
        return "64 MB that were cleared are not zero"
    return ""


def _product(device: str) -> str:
    numbers = torch.arange(_SIDE * _SIDE).reshape(_SIDE, _SIDE)
    left, right = numbers % 7 - 3, numbers % 5 - 2
    exact = left @ right
    found = (left.float().to(device) @ right.float().to(device)).cpu()
    off = int((found != exact.float()).sum())
    return f"{off} of {_SIDE * _SIDE} elements of a known product are wrong" if off else ""
