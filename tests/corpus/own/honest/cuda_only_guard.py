# expect: accept; layer: correctness; ref: refs/softmax.py; needs: cpu
# insists on CUDA tensors, allocates with a literal device, asks for the number of SMs
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def persistent_softmax(x_ptr, o_ptr, n_rows, n_cols, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    for row in range(tl.program_id(0), n_rows, tl.num_programs(0)):
        x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=-float("inf"))
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(o_ptr + row * n_cols + cols, e / tl.sum(e, axis=0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        assert x.is_cuda, "expects a CUDA tensor"
        rows, cols = x.shape
        out = torch.empty((rows, cols), dtype=x.dtype, device="cuda")
        sms = torch.cuda.get_device_properties(x.device).multi_processor_count
        persistent_softmax[(min(rows, sms),)](x, out, rows, cols, BLOCK=triton.next_power_of_2(cols))
        return out
