"""Jobs that need a GPU."""

# Jobs have one signature; a constexpr is written as Triton's users write it.
# ruff: noqa: ARG001, N803

import ctypes
import os
import subprocess
import time
from pathlib import Path

import torch
import triton
import triton.language as tl

from workbench.isolation.tensors import from_blob, to_blob


@triton.jit
def _double(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, at < n) * 2, at < n)


@triton.jit
def _spin(x):
    while tl.load(x, volatile=True) == 0.0:
        pass


def who(bench, request, blobs):
    return {
        "device": bench.device,
        "devices": torch.cuda.device_count(),
        "name": torch.cuda.get_device_name(0),
    }, []


def double(bench, request, blobs):
    n, block = request["n"], request.get("block", 128)
    x = torch.rand(n, device=bench.device)
    y = torch.empty_like(x)
    _double[(triton.cdiv(n, block),)](x, y, n, BLOCK=block)
    return {"error": (y - 2 * x).abs().max().item()}, []


def seal(bench, request, blobs):
    bench.forbid_exec()
    try:
        subprocess.run(["true"], check=True)
    except PermissionError:
        return {"refused": True}, []
    return {"refused": False}, []


def reach_out_of_bounds(bench, request, blobs):
    x = torch.zeros(16, device=bench.device)
    _double[(1 << 20,)](x, x[1:], 1 << 40, BLOCK=1024)
    torch.cuda.synchronize()
    return {}, []


def ahead(bench, request, blobs):
    """Compile what `double` launches, before any worker of a candidate is there."""
    return double(bench, {"n": 1000}, [])


def compiled(bench, request, blobs):
    """What lies in this worker's own cache of compiled kernels and helpers."""
    files = Path(os.environ["TRITON_CACHE_DIR"]).rglob("*")
    return {"files": sorted(one.name for one in files if one.suffix in (".cubin", ".so"))}, []


def spin(bench, request, blobs):
    _spin[(1,)](torch.zeros(1, device=bench.device))
    torch.cuda.synchronize()
    return {}, []


def wait(bench, request, blobs):
    time.sleep(request["seconds"])
    return {}, []


def take(bench, request, blobs):
    torch.empty(request["bytes"], dtype=torch.uint8, device=bench.device)
    return {}, []


def take_raw(bench, request, blobs):
    """Past torch's allocator, and hold it."""
    driver, place = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
    size = ctypes.c_size_t(request["bytes"])
    return {"status": driver.cuMemAlloc_v2(ctypes.byref(place), size)}, []


def lend(bench, request, blobs):
    tensor = torch.arange(request["n"], dtype=torch.float32, device=bench.device)
    bench.state["lent"] = tensor
    square = tensor.view(64, -1).T
    return {}, [to_blob(tensor, share=True), to_blob(square, share=True)]


def borrow(bench, request, blobs):
    flat, square = (from_blob(blob, bench.device) for blob in blobs)
    total = flat.sum().item()
    flat[0] = -1.0
    torch.cuda.synchronize()
    return {"sum": total, "columns": square.shape[1]}, []


def first(bench, request, blobs):
    return {"first": bench.state["lent"][0].item()}, []


def write_shared(bench, request, blobs):
    Path(f"/dev/shm/torch_{os.getpid()}_planted").write_text("x")
    return {}, []
