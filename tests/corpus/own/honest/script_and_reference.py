# expect: accept; layer: correctness; ref: refs/softmax.py; needs: cpu
# carries its own test: a reference nobody calls and a __main__ part
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rows(x_ptr, o_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=-float("inf"))
    e = tl.exp2((x - tl.max(x, axis=0)) * 1.4426950408889634)
    tl.store(o_ptr + row * n_cols + cols, e / tl.sum(e, axis=0), mask=mask)


def torch_softmax(x):
    return torch.softmax(x, dim=-1)


def get_inputs():
    torch.manual_seed(0)
    return [torch.randn(32, 100).cuda()]


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        rows[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out


if __name__ == "__main__":
    import time

    x = get_inputs()[0]
    began = time.perf_counter()
    assert torch.allclose(ModelNew()(x), torch_softmax(x), atol=1e-5)
    print(time.perf_counter() - began)
