# expect: accept; layer: correctness; ref: refs/row_sum.py; needs: cpu
# heuristics under an autotuner with two keys
import torch
import triton
import triton.language as tl
from torch import nn


@triton.autotune(
    configs=[triton.Config({"ROWS": r}, num_warps=w, num_stages=s) for r in (1, 2) for w in (2, 4) for s in (1, 2)],
    key=["rows", "n"],
    warmup=5,
    rep=20,
)
@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["n"]), "EVEN": lambda args: args["rows"] % args["ROWS"] == 0})
@triton.jit
def row_sum(x_ptr, o_ptr, rows, n, ROWS: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK)
    mask = cols[None, :] < n
    if not EVEN:
        mask = mask & (at[:, None] < rows)
    x = tl.load(x_ptr + at[:, None] * n + cols[None, :], mask=mask, other=0.0)
    tl.store(o_ptr + at, tl.sum(x, axis=1), mask=at < rows)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, n = x.shape
        out = torch.empty((rows,), device=x.device, dtype=x.dtype)
        row_sum[lambda meta: (triton.cdiv(rows, meta["ROWS"]),)](x, out, rows, n)
        return out
