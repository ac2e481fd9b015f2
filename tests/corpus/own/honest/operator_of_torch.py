# expect: accept; layer: correctness; ref: refs/relu_add.py; needs: cpu
# registered with torch.library.custom_op, with a fake for tracing; reached by torch.ops, in ranges for a profiler
import contextlib
import importlib
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl

tools = importlib.import_module("triton")


@triton.jit
def add_relu(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    s = tl.load(x_ptr + offs, mask=mask) + tl.load(y_ptr + offs, mask=mask)
    tl.store(o_ptr + offs, tl.where(s > 0, s, 0.0), mask=mask)

@torch.library.custom_op("mylib::add_relu2", mutates_args=(), device_types="cuda")
def add_relu_op(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    n = x.numel()
    add_relu[(tools.cdiv(n, 256),)](x, y, out, n, BLOCK=256)
    return out


@torch.library.register_fake("mylib::add_relu2")
def _(x, y):
    return torch.empty_like(x)


class ModelNew(nn.Module):
    def forward(self, x, y):
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.profiler.record_function("add_relu"))
            stack.enter_context(torch.cuda.nvtx.range("add_relu"))
            return torch.ops.mylib.add_relu2.default(x, y)
