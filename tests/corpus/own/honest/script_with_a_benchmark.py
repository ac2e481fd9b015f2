# expect: accept; layer: correctness; ref: refs/relu_add.py; needs: cpu
# the whole file of a tutorial: reference, benchmark, script
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl
import argparse
import time
import sys
@triton.jit
def add_relu(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    s = tl.load(x_ptr + offs, mask=mask) + tl.load(y_ptr + offs, mask=mask)
    tl.store(o_ptr + offs, tl.where(s > 0, s, 0.0), mask=mask)

class Model(nn.Module):
    def forward(self, x, y):
        return torch.relu(x + y)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        add_relu[(triton.cdiv(x.numel(), 256),)](x, y, out, x.numel(), BLOCK=256)
        return out


def get_inputs():
    return [torch.randn(61, 97, device="cuda"), torch.randn(61, 97, device="cuda")]


def get_init_inputs():
    return []


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["size"], x_vals=[2**i for i in range(12, 28, 1)], x_log=True, line_arg="provider",
        line_vals=["triton", "torch"], line_names=["Triton", "Torch"], styles=[("blue", "-"), ("green", "-")],
        ylabel="GB/s", plot_name="vector-add-performance", args={}))
def benchmark(size, provider):
    x = torch.rand(size, device="cuda", dtype=torch.float32)
    quantiles = [0.5, 0.2, 0.8]
    if provider == "torch":
        ms, min_ms, max_ms = triton.testing.do_bench(lambda: x + x, quantiles=quantiles)
    gbps = lambda ms: 3 * x.numel() * x.element_size() * 1e-9 / (ms * 1e-3)
    return gbps(ms), gbps(max_ms), gbps(min_ms)


if __name__ == "__main__":
    torch.manual_seed(0)
    m, r = ModelNew().cuda(), Model().cuda()
    a = get_inputs()
    torch.testing.assert_close(m(*a), r(*a))
    start = torch.cuda.Event(enable_timing=True)
    print(time.perf_counter())
    benchmark.run(print_data=True)
