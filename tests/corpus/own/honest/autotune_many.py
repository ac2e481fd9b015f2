# expect: accept; layer: correctness; ref: refs/relu_add.py; needs: cpu
# several autotune configs, a pre-hook and pruning
import torch
import torch.nn as nn
import triton
import triton.language as tl


def fitting(configs, named_args, **kwargs):
    small = [c for c in configs if c.kwargs["BLOCK"] <= 2 * named_args["n"]]
    return small or configs[:1]


@triton.autotune(
    configs=[triton.Config({"BLOCK": block}, num_warps=warps) for block in (256, 1024) for warps in (4, 8)],
    key=["n"],
    prune_configs_by={"early_config_prune": fitting},
)
@triton.jit
def add_relu(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    s = tl.load(x_ptr + offs, mask=mask) + tl.load(y_ptr + offs, mask=mask)
    tl.store(o_ptr + offs, tl.maximum(s, 0.0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        n = out.numel()

        def grid(meta):
            return (triton.cdiv(n, meta["BLOCK"]),)

        add_relu[grid](x, y, out, n)
        return out
