"""The constructor of a lifted candidate: the reference's parameters and buffers, by the same names."""

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from workbench.kernels.inductor.records import LiftRefused

_INDENT = " " * 8

_LONGEST_CONSTANT = 64
"""Elements of a constant that is written into the candidate's text."""


def constructor(model: nn.Module, constants: Mapping[str, torch.Tensor]) -> str:
    """The text of `__init__`, which builds the state of `model` and none of its behaviour.

    A layer of torch.nn is built again from its own description where that gives the same state;
    otherwise its parameters and buffers are registered one by one. `constants` become buffers that
    no state_dict has. Raises LiftRefused for a constant too long to be written out.
    """
    if any(name.isdigit() for name, _ in model.named_children()):
        raise LiftRefused("the reference is a Sequential itself: its layers have no names")
    lines = [
        "    def __init__(self, *_sizes):",
        f"{_INDENT}super().__init__()",
        *(_INDENT + line for line in _parts(model, "self")),
        *(_INDENT + _constant(name, tensor) for name, tensor in constants.items()),
    ]
    return "\n".join(lines) + "\n"


def accessor(name: str) -> str:
    """The expression in `forward` that reads the state called `name` (`net.0.weight`)."""
    return "self" + "".join(f"[{p}]" if p.isdigit() else f".{p}" for p in name.split("."))


def local_name(name: str, taken: set[str]) -> str:
    """A local variable's name for a state, free of `taken`: `net.0.weight` is `net_0_weight`."""
    plain = re.sub(r"\W", "_", name)
    while plain in taken:
        plain += "_"
    return plain


def _parts(module: nn.Module, path: str) -> Iterator[str]:
    for name, value in module._parameters.items():
        if value is not None:
            yield f"{path}.{name} = nn.Parameter({_empty(value)})"
    for name, buffer in module._buffers.items():
        if buffer is not None:
            if name in module._non_persistent_buffers_set:
                raise LiftRefused(
                    f"the buffer {name} is not in the reference's state_dict",
                    todo="register it with persistent=True, so that a candidate can be given it",
                )
            yield f'{path}.register_buffer("{name}", {_empty(buffer)})'
    children = {name: child for name, child in module.named_children() if child.state_dict()}
    if children and all(name.isdigit() for name in children):
        yield from _numbered(children, path)
        return
    for name, child in children.items():
        yield from _child(child, f"{path}.{name}")


def _numbered(children: dict[str, nn.Module], path: str) -> Iterator[str]:
    """Members of a Sequential or ModuleList; those without state leave a gap."""
    count = max(int(name) for name in children) + 1
    yield f"{path} = nn.ModuleList(nn.Module() for _ in range({count}))"
    for name, child in children.items():
        yield from _child(child, f"{path}[{name}]")


def _child(child: nn.Module, path: str) -> Iterator[str]:
    layer = _layer(child)
    if layer:
        yield f"{path} = {layer}"
        return
    names = [name for name, part in child.named_children() if part.state_dict()]
    if not (names and all(name.isdigit() for name in names) and not _own(child)):
        yield f"{path} = nn.Module()"
    yield from _parts(child, path)


def _own(module: nn.Module) -> bool:
    return any(v is not None for v in (*module._parameters.values(), *module._buffers.values()))


def _layer(module: nn.Module) -> str:
    """`nn.Linear(64, 32, bias=True)` where building that gives the same state, else nothing."""
    if type(module).__module__.split(".")[0] != "torch" or list(module.children()):
        return ""
    dtypes = {p.dtype for p in module.parameters()}
    suffix = f", dtype={dtypes.pop()}" if dtypes and dtypes != {torch.float32} else ""
    text = f"nn.{type(module).__name__}({module.extra_repr()}{suffix})"
    try:
        text = _without_defaults(text, type(module))
        with torch.device("meta"):
            built = eval(text, {"nn": nn, "torch": torch})  # noqa: S307 - torch's own description
    # A description that is no constructor call fails in whatever way it likes.
    except Exception:  # noqa: BLE001
        return ""
    return text if _form(built) == _form(module) else ""


def _without_defaults(text: str, layer: type[nn.Module]) -> str:
    """The constructor call without keywords that say the default: other versions may lack them."""
    call = ast.parse(text, mode="eval").body
    if isinstance(call, ast.Call):
        defaults = inspect.signature(layer).parameters
        call.keywords = [
            k for k in call.keywords if k.arg and _value(k.value) != defaults[k.arg].default
        ]
    return ast.unparse(call)


def _value(node: ast.expr) -> object:
    try:
        return ast.literal_eval(node)
    except ValueError:
        return node


def _form(module: nn.Module) -> dict[str, tuple[Any, ...]]:
    return {k: (tuple(v.shape), v.dtype) for k, v in module.state_dict().items()}


def _constant(name: str, tensor: torch.Tensor) -> str:
    if tensor.numel() > _LONGEST_CONSTANT:
        raise LiftRefused(
            f"the reference holds a constant tensor of {tensor.numel()} elements",
            todo="register it with register_buffer, so that it is part of the state_dict",
        )
    value = f"torch.tensor({tensor.tolist()}, dtype={tensor.dtype})"
    return f'self.register_buffer("{name}", {value}, persistent=False)'


def _empty(tensor: torch.Tensor) -> str:
    return f"torch.empty({tuple(tensor.shape)}, dtype={tensor.dtype})"
