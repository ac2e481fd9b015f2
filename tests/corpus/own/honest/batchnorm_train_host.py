# expect: accept; layer: correctness; ref: refs/batchnorm_train.py; needs: cpu
# host code blends the kernel's statistics into its own buffers
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def batch_norm(x_ptr, w_ptr, b_ptr, m_ptr, v_ptr, o_ptr, n_rows, n_cols, eps, momentum, BLOCK: tl.constexpr):
    col = tl.program_id(0)
    rows = tl.arange(0, BLOCK)
    mask = rows < n_rows
    x = tl.load(x_ptr + rows * n_cols + col, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / n_rows
    d = tl.where(mask, x - mean, 0.0)
    var = tl.sum(d * d, axis=0) / n_rows
    y = d / tl.sqrt(var + eps) * tl.load(w_ptr + col) + tl.load(b_ptr + col)
    tl.store(o_ptr + rows * n_cols + col, y, mask=mask)
    tl.store(m_ptr + col, mean)
    tl.store(v_ptr + col, var * n_rows / (n_rows - 1))


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def forward(self, x):
        out = torch.empty_like(x)
        n, c = x.shape
        stats = torch.empty((2, c), device=x.device, dtype=torch.float32)
        batch_norm[(c,)](
            x, self.weight, self.bias, stats[0], stats[1], out, n, c, 1e-5, 0.1,
            BLOCK=triton.next_power_of_2(n),
        )
        self.running_mean.mul_(0.9).add_(stats[0], alpha=0.1)
        self.running_var.lerp_(stats[1], 0.1)
        return out
