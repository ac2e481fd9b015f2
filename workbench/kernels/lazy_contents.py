"""Fills a candidate's full-size tensors with chunks of the judge's numbers, repeated."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import nn

from workbench.kernels.lazy import LazyHost, lazy_filled
from workbench.kernels.module_state import state_of
from workbench.kernels.paint import fill

Filling = Callable[[Sequence[int], torch.dtype, Sequence[int]], torch.Tensor]
"""`filling(shape, dtype, strides)` makes the next input tensor with its contents."""


class Contents:
    """The chunks: those of the inputs in nesting order, and those of the state by name."""

    def __init__(self, inputs: Sequence[torch.Tensor], state: Mapping[str, torch.Tensor]) -> None:
        self._inputs = list(inputs)
        self._state = dict(state)

    @property
    def names(self) -> frozenset[str]:
        """Names of the state's tensors."""
        return frozenset(self._state)

    def filling(self, host: LazyHost) -> Filling:
        """A function that makes the input tensors in order and records their contents for the
        host."""
        chunks = iter(self._inputs)

        def made(shape: Sequence[int], dtype: torch.dtype, strides: Sequence[int]) -> torch.Tensor:
            chunk = next(chunks)
            tensor = lazy_filled(shape, dtype, chunk, strides)
            host.holds(tensor, chunk)
            return tensor

        return made

    def put_state(self, model: nn.Module, host: LazyHost) -> None:
        """Write the judge's state into a model's own tensors."""
        for name, tensor in state_of(model).items():
            chunk = self._state.get(name)
            if chunk is not None and tensor.numel():
                fill(tensor, chunk)
                host.holds(tensor, chunk)
