# expect: accept; layer: correctness; ref: refs/softmax.py; needs: cpu
# pruning by a hook and by a performance model
import math
import torch
import torch.nn as nn
import triton
import triton.language as tl


def _early(configs, named_args, **kwargs):
    n = named_args["n_cols"]
    need = triton.next_power_of_2(n)
    kept = [c for c in configs if c.kwargs["BLOCK"] >= need]
    return kept if kept else configs
def _perf(n_cols, BLOCK, num_warps, **kw):
    return BLOCK / num_warps

@triton.autotune(
    configs=[triton.Config({"BLOCK": b}, num_warps=w, num_stages=s) for b in (64, 128, 256) for w in (1, 4) for s in (1, 2)],
    key=["n_cols"],
    prune_configs_by={"early_config_prune": _early, "perf_model": _perf, "top_k": 3},
    warmup=10, rep=20,
)
@triton.jit
def sm(x_ptr, o_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    m = c < n_cols
    x = tl.load(x_ptr + row * stride + c, mask=m, other=-float("inf"))
    x = x - tl.max(x, axis=0)
    e = tl.exp(x)
    tl.store(o_ptr + row * stride + c, e / tl.sum(e, axis=0), mask=m)

class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.contiguous()
        out = torch.empty_like(x)
        sm[(x.shape[0],)](x, out, x.stride(0), x.shape[1])
        return out
