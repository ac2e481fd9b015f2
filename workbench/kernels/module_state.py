"""The tensors of a candidate's modules, read without running any of its code.

`nn.Module.state_dict` calls methods of the children, and `buffers` their `named_modules`: a class
that overrides those would run, with the inputs it has kept, where no clock looks.
"""

from collections.abc import Iterator

import torch
from torch import nn


def state_of(model: nn.Module) -> dict[str, torch.Tensor]:
    """As `model.state_dict()`: parameters and persistent buffers by name, detached."""
    return {name: tensor.detach() for name, tensor, _, kept in _tensors(model, "", ()) if kept}


def buffers_of(model: nn.Module) -> dict[str, torch.Tensor]:
    """As `dict(model.named_buffers())`, but with every name that a buffer has."""
    return {name: tensor for name, tensor, buffer, _ in _tensors(model, "", ()) if buffer}


def tensors_of(model: nn.Module) -> list[torch.Tensor]:
    """All parameters and buffers, once for each name."""
    return [tensor for _, tensor, _, _ in _tensors(model, "", ())]


def _tensors(
    module: nn.Module, prefix: str, above: tuple[int, ...]
) -> Iterator[tuple[str, torch.Tensor, bool, bool]]:
    """Name, tensor, whether it is a buffer, whether it belongs to the state."""
    if id(module) in above:
        return
    held = object.__getattribute__(module, "__dict__")
    passing = held.get("_non_persistent_buffers_set", ())
    for kind in ("_parameters", "_buffers"):
        # Unbound, here and below: a dict of another class may override its own.
        for name, tensor in dict.items(held.get(kind) or {}):
            if isinstance(tensor, torch.Tensor):
                buffer = kind == "_buffers"
                yield prefix + name, tensor, buffer, not (buffer and name in passing)
    for name, child in dict.items(held.get("_modules") or {}):
        if isinstance(child, nn.Module):
            yield from _tensors(child, f"{prefix}{name}.", (*above, id(module)))
