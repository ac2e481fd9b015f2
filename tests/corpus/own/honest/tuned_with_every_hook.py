# expect: accept; layer: correctness; ref: refs/relu_add.py; needs: cpu
# launch metadata and a name for profilers, pruning early and by a model, hooks and heuristics
import math

import torch
import triton
import triton.language as tl
from torch import nn


def metadata(grid, kernel, args):
    n, size = args["n"], args["x_ptr"].element_size()
    return {"name": f"{kernel.name} [n={n}, grid={grid}]", "bytes": 3 * n * size}


def named(specialization):
    constants = specialization.constants
    return f"add_relu_{constants.get('BLOCK', 'any')}"


def fitting(configs, named_args, **kwargs):
    size = named_args["x_ptr"].element_size()
    return [c for c in configs if c.kwargs["BLOCK"] * size <= 4096] or configs[:1]


def seconds(x_ptr, n, BLOCK, num_warps, **kwargs):
    return math.ceil(n / BLOCK) * (1 + x_ptr.element_size()) / math.log2(2 * num_warps)


def cleared(nargs, reset_only=False):
    nargs["o_ptr"].zero_()


CONFIGS = [triton.Config({"BLOCK": b}, w, 2, 1, None, cleared) for b in (64, 128) for w in (2, 4)]


@triton.autotune(
    CONFIGS,
    ["n"],
    {"early_config_prune": fitting, "perf_model": seconds, "top_k": 2},
    pre_hook=cleared,
    post_hook=lambda nargs, exception: None,
)
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit(repr=named, launch_metadata=metadata, do_not_specialize=["n"])
def add_relu(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    if EVEN:
        s = tl.load(x_ptr + offs) + tl.load(y_ptr + offs)
    else:
        s = tl.load(x_ptr + offs, mask=mask) + tl.load(y_ptr + offs, mask=mask)
    tl.store(o_ptr + offs, tl.maximum(s, 0.0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        n = x.numel()
        add_relu[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n)
        return out
