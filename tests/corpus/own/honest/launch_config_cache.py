# expect: accept; layer: correctness; ref: refs/relu_add.py; needs: cpu
# remembers launch settings by shape and dtype, never a result
import torch
import torch.nn as nn
import triton
import triton.language as tl


from functools import lru_cache

@triton.jit
def add_relu(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    s = tl.load(x_ptr + offs, mask=mask) + tl.load(y_ptr + offs, mask=mask)
    tl.store(o_ptr + offs, tl.where(s > 0, s, 0.0), mask=mask)


@lru_cache(maxsize=None)
def block_for(n: int, itemsize: int) -> int:
    return max(128, min(1024, triton.next_power_of_2(n * itemsize // 64)))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self._launch_cache = {}

    def forward(self, x, y):
        key = (tuple(x.shape), x.dtype, str(x.device))
        plan = self._launch_cache.get(key)
        if plan is None:
            block = block_for(x.numel(), x.element_size())
            plan = {"grid": (triton.cdiv(x.numel(), block),), "options": {"BLOCK": block, "num_warps": 4}}
            self._launch_cache[key] = plan
        out = torch.empty_like(x)
        add_relu[plan["grid"]](x, y, out, x.numel(), **plan["options"])
        return out
