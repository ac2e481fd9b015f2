# expect: accept; layer: correctness; ref: refs/layernorm.py; needs: cpu
# affine normalization over nn.LayerNorm's parameters
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def layer_norm(x_ptr, w_ptr, b_ptr, o_ptr, stride, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / n_cols
    centred = tl.where(mask, x - mean, 0.0)
    rstd = tl.rsqrt(tl.sum(centred * centred, axis=0) / n_cols + eps)
    w = tl.load(w_ptr + cols, mask=mask)
    b = tl.load(b_ptr + cols, mask=mask)
    tl.store(o_ptr + row * n_cols + cols, centred * rstd * w + b, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.ln = nn.LayerNorm(dim)

    def forward(self, x):
        rows = x.view(-1, x.shape[-1])
        out = torch.empty_like(rows)
        layer_norm[(rows.shape[0],)](
            rows, self.ln.weight, self.ln.bias, out, rows.stride(0), rows.shape[1], self.ln.eps,
            BLOCK=triton.next_power_of_2(rows.shape[1]), num_warps=4,
        )
        return out.view(x.shape)
