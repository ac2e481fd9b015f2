# expect: accept; layer: correctness; ref: refs/batchnorm_train.py; needs: cpu
# the kernel itself updates the running statistics in place
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
    running = tl.load(m_ptr + col)
    tl.store(m_ptr + col, running + momentum * (mean - running))
    running = tl.load(v_ptr + col)
    tl.store(v_ptr + col, running + momentum * (var * n_rows / (n_rows - 1) - running))


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
        batch_norm[(c,)](
            x, self.weight, self.bias, self.running_mean, self.running_var, out, n, c, 1e-5, 0.1,
            BLOCK=triton.next_power_of_2(n),
        )
        return out
