# expect: accept; layer: correctness; ref: refs/linear_relu.py; needs: cpu
# nn.Linear keeps the weights; the kernel reads them
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gemm(a_ptr, b_ptr, bias_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid = tl.program_id(0)
    tiles_n = tl.cdiv(N, BN)
    rm = (pid // tiles_n) * BM + tl.arange(0, BM)
    rn = (pid % tiles_n) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        rk = k * BK + tl.arange(0, BK)
        a = tl.load(a_ptr + rm[:, None] * sam + rk[None, :] * sak, mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0)
        b = tl.load(b_ptr + rk[:, None] * sbk + rn[None, :] * sbn, mask=(rk[:, None] < K) & (rn[None, :] < N), other=0.0)
        acc += tl.dot(a, b, input_precision="ieee")
    acc = tl.maximum(acc + tl.load(bias_ptr + rn, mask=rn < N, other=0.0)[None, :], 0.0)
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc, mask=(rm[:, None] < M) & (rn[None, :] < N))



class ModelNew(nn.Module):
    def __init__(self, n_in, n_out):
        super(ModelNew, self).__init__()
        self.fc = nn.Linear(n_in, n_out)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight, bias = self.fc.weight, self.fc.bias
        x = x.contiguous()
        (M, K), N = x.shape, weight.shape[0]
        out = torch.empty((M, N), device=x.device, dtype=x.dtype)
        wt = weight.t()
        grid = (triton.cdiv(M, 16) * triton.cdiv(N, 16),)
        gemm[grid](x, wt, bias, out, M, N, K, x.stride(0), x.stride(1), wt.stride(0), wt.stride(1), BM=16, BN=16, BK=32)
        return out
