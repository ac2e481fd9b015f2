# expect: accept; layer: correctness; ref: refs/layernorm.py; needs: cpu
# a wrapper makes every argument contiguous and chooses the device, context included
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl
import contextlib
import functools
import os
from functools import lru_cache
from typing import Any, Callable, Dict, Literal, Optional, Tuple

FLA_CI_ENV = os.getenv("FLA_CI_ENV") == "1"
IS_NVIDIA = True


def tensor_cache(fn):
    return fn


def input_guard(fn: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A decorator to make sure all input tensors are contiguous and set the device based on input tensors."""

    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        contiguous_args = (i if not isinstance(i, torch.Tensor) else i.contiguous() for i in args)
        contiguous_kwargs = {k: (v if not isinstance(v, torch.Tensor) else v.contiguous()) for k, v in kwargs.items()}

        tensor = None
        for arg in args:
            if isinstance(arg, torch.Tensor):
                tensor = arg
                break
        if tensor is None:
            for value in kwargs.values():
                if isinstance(value, torch.Tensor):
                    tensor = value
                    break

        if tensor is not None and tensor.is_cuda:
            ctx = torch.cuda.device(tensor.device.index)
        else:
            ctx = contextlib.nullcontext()

        with ctx:
            return fn(*contiguous_args, **contiguous_kwargs)

    return wrapper


@lru_cache(maxsize=None)
def get_multiprocessor_count(tensor_idx: int = 0) -> int:
    try:
        return triton.runtime.driver.active.utils.get_device_properties(tensor_idx)["multiprocessor_count"]
    except BaseException:
        return 132

@triton.jit
def ln_kernel(x_ptr, w_ptr, b_ptr, o_ptr, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    m = c < N
    x = tl.load(x_ptr + row * N + c, mask=m, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / N
    d = tl.where(m, x - mean, 0.0)
    var = tl.sum(d * d, axis=0) / N
    y = d * (1.0 / tl.sqrt(var + eps)) * tl.load(w_ptr + c, mask=m) + tl.load(b_ptr + c, mask=m)
    tl.store(o_ptr + row * N + c, y, mask=m)

class LayerNormFn(torch.autograd.Function):
    @staticmethod
    @input_guard
    def forward(ctx, x, weight, bias, eps):
        y = torch.empty_like(x)
        ln_kernel[(x.shape[0],)](x, weight, bias, y, x.shape[1], eps, BLOCK=triton.next_power_of_2(x.shape[1]))
        ctx.eps = eps
        return y


def layer_norm(x, weight, bias, eps=1e-5):
    return LayerNormFn.apply(x, weight, bias, eps)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.ln = nn.LayerNorm(dim)

    def forward(self, x):
        return layer_norm(x, self.ln.weight, self.ln.bias, self.ln.eps)
