"""A candidate of our own, profiled to learn whether the profiler works on a confined process.

A stranger's candidate could fail on purpose, in order to be run without confinement.
"""

PROBLEM = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return x + 1

def get_inputs():
    return [torch.zeros(4096)]

def get_init_inputs():
    return []
"""

KERNEL = "canary"
CANDIDATE = """
import torch
import triton
import triton.language as tl
from torch import nn

@triton.jit
def canary(x_ptr, o_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o_ptr + at, tl.load(x_ptr + at) + 1)

class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        canary[(x.numel() // 1024,)](x, out, BLOCK=1024)
        return out
"""
