# expect: accept; layer: correctness; ref: refs/relu_add.py; needs: cpu
# guarded imports: the one try that everybody writes
try:
    import torch
    import torch.nn as nn
    import triton
    import triton.language as tl
except ImportError as missing:
    raise ImportError("this kernel needs torch and triton") from missing


try:
    from triton.language.extra import libdevice
except ImportError:  # an older Triton
    libdevice = None

HAS_CUDA = torch.cuda.is_available()
DEFAULT_WARPS = 8 if HAS_CUDA and torch.cuda.get_device_capability()[0] >= 9 else 4

@triton.jit
def add_relu(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    s = tl.load(x_ptr + offs, mask=mask) + tl.load(y_ptr + offs, mask=mask)
    tl.store(o_ptr + offs, tl.where(s > 0, s, 0.0), mask=mask)


class ModelNew(nn.Module):
    """Falls back to nothing: without the kernel there is no answer."""

    def forward(self, x, y):
        if x.dtype not in (torch.float32, torch.float16):
            raise NotImplementedError(f"{x.dtype} in {type(self).__name__}")
        out = torch.empty_like(x)
        add_relu[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024, num_warps=DEFAULT_WARPS)
        return out
