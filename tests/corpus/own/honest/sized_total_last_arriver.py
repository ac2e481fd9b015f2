# expect: accept; layer: correctness; ref: refs/total_sized.py; needs: cpu
# one number; tickets in a buffer that the last program leaves clean
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def part(x, s, k, y, n, P: tl.constexpr, STEP, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    acc = tl.zeros((BLOCK,), tl.float32)
    for i in range(0, STEP):
        o = (p * STEP + i) * BLOCK + tl.arange(0, BLOCK)
        acc += tl.load(x + o, mask=o < n, other=0.0)
    tl.store(s + p, tl.sum(acc, 0))
    tl.debug_barrier()
    done = tl.atomic_add(k, 1, sem="acq_rel")
    if done == P - 1:
        tl.store(y, tl.sum(tl.load(s + tl.arange(0, P), volatile=True), 0))
        tl.store(k, 0)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("k", torch.zeros(1, dtype=torch.int32), persistent=False)
        self.register_buffer("s", torch.zeros(64), persistent=False)

    def forward(self, x):
        y = torch.empty((), device=x.device)
        part[(64,)](x, self.s, self.k, y, x.numel(), 64, triton.cdiv(x.numel(), 64 * 1024), 1024)
        return y
