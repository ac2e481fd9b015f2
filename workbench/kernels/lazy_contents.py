"""The judge's numbers in a candidate's full-size tensors: a chunk of each, over and over."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import nn

from workbench.kernels.lazy import LazyHost, lazy_filled
from workbench.kernels.paint import fill

Filling = Callable[[Sequence[int], torch.dtype, Sequence[int]], torch.Tensor]
"""Makes a tensor of a shape, dtype and strides with its contents."""


class Contents:
    """Chunks of the inputs in the order of their nesting, and of the state by name."""

    def __init__(self, inputs: Sequence[torch.Tensor], state: Mapping[str, torch.Tensor]) -> None:
        self._inputs = list(inputs)
        self._state = dict(state)

    @property
    def names(self) -> frozenset[str]:
        """Of the state's tensors."""
        return frozenset(self._state)

    def filling(self, host: LazyHost) -> Filling:
        """Makes the input tensors, one after the other, and tells the host what they hold."""
        chunks = iter(self._inputs)

        def made(shape: Sequence[int], dtype: torch.dtype, strides: Sequence[int]) -> torch.Tensor:
            chunk = next(chunks)
            tensor = lazy_filled(shape, dtype, chunk, strides)
            host.holds(tensor, chunk)
            return tensor

        return made

    def put_state(self, model: nn.Module, host: LazyHost) -> None:
        """Write the state that the judge knows of into a model, on new memory of its own."""
        for name, tensor in nn.Module.state_dict(model).items():
            chunk = self._state.get(name)
            if chunk is not None and isinstance(tensor, torch.Tensor) and tensor.numel():
                fill(tensor, chunk)
                host.holds(tensor, chunk)
