"""Host values as a kernel receives them: typed scalars, and pointers that know their tensor."""

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter as triton_interpreter
from triton.runtime.interpreter import TensorHandle
from triton.runtime.jit import TensorWrapper, mangle_type

from workbench.errors import WorkbenchError
from workbench.kernels.faults import KernelRaised
from workbench.kernels.standin_tensors import on_host
from workbench.kernels.trace_launch import candidate_line
from workbench.kernels.trace_memory import ArgumentPointer, Region
from workbench.kernels.untyped import Untyped


def bind(function: Untyped, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """Arguments by parameter name, without launch options such as num_warps.

    Raises KernelRaised where they do not fit the signature, ValueError for a tensor on the host.
    """
    signature = inspect.signature(function)
    known = {name: value for name, value in named.items() if name in signature.parameters}
    try:
        bound = signature.bind(*args, **known)
    except TypeError as error:
        raise KernelRaised(str(error), kernel=function.__name__, line=candidate_line()) from error
    bound.apply_defaults()
    _refuse_host_tensors(bound.arguments)
    return dict(bound.arguments)


def _refuse_host_tensors(bound: Mapping[str, object]) -> None:
    """Raise as triton does: a kernel cannot access host memory."""
    for place, value in enumerate(bound.values()):
        if isinstance(value, torch.Tensor) and on_host(value):
            says = f"Pointer argument (at {place}) cannot be accessed from Triton (cpu tensor?)"
            raise ValueError(says)


class Converter:
    """Converts host values to interpreter values, and collects the memory regions they allow."""

    def __init__(self) -> None:
        self.regions: list[Region] = []

    def convert(self, name: str, value: Untyped) -> Untyped:
        """A pointer for a tensor, a typed scalar for a number; None and constexprs stay as they
        are.
        """
        if isinstance(value, bool):
            return _scalar(np.bool_(value), tl.int1)
        if isinstance(value, float):
            # The compiler passes Python floats as fp32, so bf16 * float is fp32.
            return _scalar(np.float32(value), tl.float32)
        if isinstance(value, tuple):
            items = [self.convert(f"{name}[{i}]", item) for i, item in enumerate(value)]
            return type(value)(*items) if hasattr(value, "_fields") else tl.tuple(items)
        if hasattr(value, "block_shape"):
            return self._descriptor(name, value)
        if isinstance(value, torch.Tensor | TensorWrapper):
            return self._pointer(name, value)
        return triton_interpreter._implicit_cvt(value)  # noqa: SLF001 -- triton has no public name for it

    def _pointer(self, name: str, value: Untyped) -> Untyped:
        tensor = value.base if isinstance(value, TensorWrapper) else value
        with torch._C.DisableTorchFunction():  # noqa: SLF001 -- torch has no public name for it
            if tensor.device.type != "cpu":
                raise WorkbenchError(
                    f"{name} is on {tensor.device}: only CPU tensors are interpreted"
                )
            region = Region(name, tensor)
            address = np.array([tensor.data_ptr()], dtype=np.uint64)
        self.regions.append(region)
        kind = ArgumentPointer(tl.str_to_ty(mangle_type(value), None), region)
        return tl.tensor(TensorHandle(address, kind), kind)

    def _descriptor(self, name: str, value: Untyped) -> Untyped:
        convert = triton_interpreter._implicit_cvt  # noqa: SLF001 -- triton has no public name for it
        strides = [convert(s) for s in value.strides[:-1]] + [tl.constexpr(1)]
        descriptor = triton_interpreter.interpreter_semantic.make_tensor_descriptor(
            base=self._pointer(name, value.base),
            shape=[convert(s) for s in value.shape],
            strides=strides,
            block_shape=[tl.constexpr(b) for b in value.block_shape],
            padding_option=value.padding,
        )
        if getattr(value, "round_f32_to_tf32", False):
            descriptor.handle.round_f32_to_tf32 = True
        return descriptor


def _scalar(value: Any, kind: Untyped) -> Untyped:  # noqa: ANN401 -- a numpy scalar
    return tl.tensor(TensorHandle(np.array([value]), kind), kind)
