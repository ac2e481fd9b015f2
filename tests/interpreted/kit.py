"""What the cases share: numbers to launch on, one traced launch, a fault that must come."""

from pathlib import Path

import torch

from workbench.kernels.interpret import tracing

with tracing():  # libdevice functions are bound when a file imports them
    import kernels as K  # noqa: N812 - a launch reads `K.copy`

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
FLOATS = (BF16, FP16, FP32)


def randn(*shape, dtype=FP32, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def launch(kernel, *args, grid=(1,), **named):
    with tracing() as trace:
        kernel[grid](*args, **named)
    return trace.launches[0]


def raised(kind, call):
    try:
        call()
    except kind as fault:
        return fault
    raise AssertionError(f"no {kind.__name__} was raised")


def source_line(place):
    return Path(K.__file__).read_text().splitlines()[place.line - 1]
