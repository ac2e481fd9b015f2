"""On a GPU: what is recorded without one is what a real launch is compiled into."""

import ctypes
import importlib.util
from pathlib import Path

import pytest
import torch
import triton

from workbench.kernels.record import recording
from workbench.kernels.static import static_profile
from workbench.kernels.target import target
from workbench.measure.gpus import list_gpus

pytestmark = pytest.mark.gpu

FILE = Path(__file__).parent / "recorded" / "kernels.py"


def load():
    """The kernels anew: triton has compiled none of these functions in this process."""
    spec = importlib.util.spec_from_file_location("recorded_kernels", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def copy(kernels, device):
    x = torch.empty(1 << 20, device=device)
    return kernels.copy[(triton.cdiv(x.numel(), 1024),)](
        x, torch.empty_like(x), x.numel(), 0.5, BLOCK=1024
    )


def row_softmax(kernels, device):
    x = torch.empty(64, 3000, device=device)
    return kernels.row_softmax[(64,)](x, torch.empty_like(x), 3000, BLOCK=4096, num_warps=8)


def large(kernels, device, dtype=torch.float16):
    x = torch.empty(128, 128, device=device, dtype=dtype)
    return kernels.large[(1,)](x, torch.empty_like(x), 128)


def large_float(kernels, device):
    return large(kernels, device, torch.float32)


def spilling(kernels, device):
    x = torch.empty(1, 16384, device=device)
    return kernels.row_softmax[(1,)](x, torch.empty_like(x), 16384, BLOCK=16384, num_warps=1)


@pytest.mark.parametrize("call", [copy, row_softmax, large, large_float, spilling])
def test_a_recorded_profile_is_that_of_the_real_launch(call, tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    sm = target(list_gpus()[0].target)
    with recording(sm, source=str(FILE), host="meta") as recorder:
        call(load(), "meta")
    (recorded,) = recorder.launches
    real = call(load(), "cuda")
    torch.cuda.synchronize()
    said = recorded.static
    theirs = static_profile(
        real.asm["cubin"],
        sm,
        shared=real.metadata.shared,
        threads=32 * real.metadata.num_warps,
        spill_store_bytes=said.spill_store_bytes,
        spill_load_bytes=said.spill_load_bytes,
    )
    assert theirs == said
    assert (real.n_regs, 4 * real.n_spills) == (said.registers, said.stack_bytes)
    assert _resident(real, said.threads) == said.programs_per_sm


def _resident(kernel, threads):
    """Programs on an SM by the driver's own calculation."""
    cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
    function = ctypes.c_void_p(kernel.function)
    shared = ctypes.c_size_t(kernel.metadata.shared)
    fault = cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor(
        ctypes.byref(count), function, ctypes.c_int(threads), shared
    )
    assert fault == 0
    return count.value
