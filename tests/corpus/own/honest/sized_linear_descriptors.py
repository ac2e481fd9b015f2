# expect: accept; layer: correctness; ref: refs/linear_sized.py; needs: cpu
# host-made tensor descriptors for operands and output
import math
import torch
import torch.nn as nn
import triton
import triton.language as tl


from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def lin(xd, wd, b_ptr, od, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pm, pn = tl.program_id(0), tl.program_id(1)
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        acc += tl.dot(xd.load([pm * BM, k0]), wd.load([pn * BN, k0]).T, input_precision="ieee")
    on = pn * BN + tl.arange(0, BN)
    acc += tl.load(b_ptr + on, mask=on < N, other=0.0)
    od.store([pm * BM, pn * BN], acc)


class ModelNew(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.linear = nn.Linear(i, o)

    def forward(self, x):
        w, b = self.linear.weight, self.linear.bias
        M, K = x.shape
        N = w.shape[0]
        out = torch.empty((M, N), device=x.device)
        xd = TensorDescriptor.from_tensor(x, [32, 32])
        wd = TensorDescriptor.from_tensor(w, [32, 32])
        od = TensorDescriptor.from_tensor(out, [32, 32])
        lin[(triton.cdiv(M, 32), triton.cdiv(N, 32))](xd, wd, b, od, N, K, 32, 32, 32)
        return out
