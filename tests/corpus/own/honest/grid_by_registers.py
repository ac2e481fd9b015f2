# expect: accept; layer: correctness; ref: refs/softmax.py; needs: cpu
# a persistent grid made of the registers and shared memory of the kernel, compiled ahead
import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.runtime import driver


@triton.jit
def rows(out, x, stride, n_rows, n_cols, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), n_rows, tl.num_programs(0), num_stages=STAGES):
        v = tl.load(x + row * stride + cols, mask=cols < n_cols, other=-float("inf"))
        e = tl.exp(v - tl.max(v, axis=0))
        tl.store(out + row * stride + cols, e / tl.sum(e, axis=0), mask=cols < n_cols)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.ahead = {}

    def forward(self, x):
        x = x.contiguous()
        out = torch.empty_like(x)
        n_rows, n_cols = x.shape
        block, warps = triton.next_power_of_2(n_cols), 8
        arguments = (out, x, n_cols, n_rows, n_cols, block, 4)
        if block not in self.ahead:
            kernel = rows.warmup(*arguments, num_warps=warps, grid=(1,))
            kernel._init_handles()
            gpu = driver.active.utils.get_device_properties(x.device.index)
            programs = gpu["max_num_regs"] // (kernel.n_regs * gpu["warpSize"] * warps)
            programs = min(programs, gpu["max_shared_mem"] // max(kernel.metadata.shared, 1))
            self.ahead[block] = kernel, max(programs, 1) * gpu["multiprocessor_count"]
        kernel, programs = self.ahead[block]
        kernel[(min(programs, n_rows), 1, 1)](*arguments)
        return out
