"""The expected answer: the reference in fp64, and as it runs. Runs in reference workers only."""

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from msgspec import Struct
from torch import nn

from workbench.gate.correctness.choices import Choice, Choices
from workbench.gate.correctness.layout import shared_before
from workbench.gate.correctness.nest import Nest, flatten
from workbench.gate.correctness.products import Products
from workbench.kernels.operators import OperatorMode
from workbench.kernels.storages import storage_address

NARROW = (torch.float32, torch.float16, torch.bfloat16)


class Answer(Struct, frozen=True):
    """One run of the reference: its outputs, and its inputs and state afterwards."""

    nest: Nest
    outputs: list[torch.Tensor]
    inputs: list[torch.Tensor]
    """After the call."""
    state: dict[str, torch.Tensor]
    """After the call."""
    aliased: list[bool]
    """Per output: shares storage with an input, a parameter or a buffer."""
    beside: list[tuple[int, ...]]
    """Per output: the outputs before it with which it shares an element."""
    choices: list[Choice]
    """Uses of operators that returned indices."""
    longest: int = 0
    """Terms of the longest sum of products."""


class Widen(OperatorMode):
    """Turns casts to a narrower float, and tensors created in one, into float64.

    A reference that casts inside (`x.half()`, `softmax(..., dtype=torch.float32)`) would otherwise
    carry its own rounding into the answer that its rounding is measured against.
    """

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        given = dict(kwargs or {})
        if _narrow(given.get("dtype")):
            given["dtype"] = torch.float64
        given_args = (torch.float64 if _narrow(a) else a for a in args)
        return func(*given_args, **given)


def _narrow(value: object) -> bool:
    return isinstance(value, torch.dtype) and value in NARROW


def foreign(leaf: object) -> str:
    """What is wrong with a leaf of a problem's inputs or outputs; nothing for a tensor."""
    if isinstance(leaf, torch.Tensor):
        return "" if leaf.layout is torch.strided else f"a tensor with layout {leaf.layout}"
    return f"an object of type {type(leaf).__name__}"


def state_of(model: nn.Module) -> dict[str, torch.Tensor]:
    """The tensors of the state_dict by name, sharing the model's storage."""
    return {name: t for name, t in model.state_dict().items() if isinstance(t, torch.Tensor)}


def run_reference(
    model: nn.Module, inputs: list[torch.Tensor], call: Callable[[list[torch.Tensor]], Any]
) -> Answer:
    """One call. `call` runs the model on `inputs`, which it may change.

    The model's own state changes too, if the reference has side effects; copies are returned.
    """
    with torch.no_grad():
        with Choices() as choices, Products() as products:
            out = call(inputs)
        nest, outputs = flatten(out, foreign)
        state = state_of(model)
        owned = {storage_address(t) for t in [*inputs, *state.values()] if t.numel()}
        return Answer(
            nest=nest,
            outputs=[t.detach() for t in outputs],
            inputs=[t.detach() for t in inputs],
            state={name: t.detach().clone() for name, t in state.items()},
            aliased=[storage_address(t) in owned for t in outputs],
            beside=shared_before(outputs),
            choices=choices.made,
            longest=products.longest,
        )


def widened(model: nn.Module) -> nn.Module:
    """A copy of the model in float64: parameters, buffers and plain tensors kept as attributes."""
    wide = copy.deepcopy(model).double()
    for module in wide.modules():
        for name, value in vars(module).items():
            if isinstance(value, torch.Tensor) and value.dtype in NARROW:
                vars(module)[name] = value.double()
    return wide


@contextmanager
def in_fp64() -> Iterator[None]:
    """Run the body so that whatever it creates in or casts to a narrower float is float64."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with Widen():
            yield
    finally:
        torch.set_default_dtype(before)


def nudged(inputs: list[torch.Tensor], eps: float, seed: int) -> list[torch.Tensor]:
    """The inputs in float64, floating-point values perturbed by up to a relative `eps`."""
    made = []
    for number, tensor in enumerate(inputs):
        if tensor.is_floating_point():
            generator = torch.Generator(tensor.device).manual_seed(1000 * seed + number)
            noise = torch.rand(
                tensor.shape, generator=generator, dtype=torch.float64, device=tensor.device
            )
            made.append(tensor.double() * (1 + eps * (2 * noise - 1)))
        else:
            made.append(tensor)
    return made


def wide_inputs(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Copies of the inputs, floating-point ones in float64, complex ones in complex128."""
    return [_wide(t) for t in inputs]


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_complex():
        return tensor.to(torch.complex128)
    return tensor.double() if tensor.is_floating_point() else tensor.clone()
