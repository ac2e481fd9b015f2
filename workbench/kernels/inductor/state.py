"""The lifted candidate's classes that hold the reference's parameters and buffers, by its names."""

import ast
import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from workbench.kernels.inductor.records import LiftRefused

_LONGEST_CONSTANT = 64
"""Elements of a constant that is written into the candidate's text."""

_WIDTH = 80
"""Columns left inside a method of a class."""


class State:
    """The text that builds the reference's state and none of its behaviour.

    A layer of torch.nn is built again from its own description where that gives the same state; any
    other module becomes a class of its own without methods, in `classes`.
    """

    def __init__(self, model: nn.Module, constants: Sequence[torch.Tensor]) -> None:
        self.classes: list[str] = []
        """Inner ones first."""
        self._names: dict[str, str] = {}
        lines = [*self._lines(model), *map(_constant, range(len(constants)), constants)]
        self.init = _init(lines, ", *_sizes")
        """`__init__` of `ModelNew`: takes the reference's arguments, knows the sizes by heart."""

    def _lines(self, module: nn.Module) -> list[str]:
        """Assignments that give `self` the state of `module`."""
        lines = []
        for name, value in module.named_parameters(recurse=False):
            lines.append(f"self.{_attribute(name)} = {_parameter(value)}")
        for name, buffer in module.named_buffers(recurse=False):
            if name not in module.state_dict():
                raise LiftRefused(
                    f"the buffer {name} is not in the reference's state_dict",
                    todo="register it with persistent=True: candidates get it from there",
                )
            lines.append(f'self.register_buffer("{name}", {_empty(buffer)})')
        for name, child in _children(module).items():
            lines.append(f"self.{_attribute(name)} = {self._built(child)}")
        return lines

    def _built(self, module: nn.Module) -> str:
        """An expression that builds a module with the state of `module`."""
        layer = _layer(module)
        if layer:
            return layer
        own = dict(module.named_parameters(recurse=False))
        buffers = dict(module.named_buffers(recurse=False))
        children = _children(module)
        if _numbered(children) and not own and not buffers:
            parts = {int(name): self._built(child) for name, child in children.items()}
            return _list("nn.ModuleList", parts, "nn.Identity()")
        if _numbered(own) and not children and not buffers:
            return _list("nn.ParameterList", {int(k): _parameter(v) for k, v in own.items()}, "")
        text = _init(self._lines(module), "")
        if text not in self._names:
            wanted = f"{type(module).__name__}State"
            count = sum(name.startswith(wanted) for name in self._names.values())
            self._names[text] = f"{wanted}{count + 1 if count else ''}"
            self.classes.append(f"class {self._names[text]}(nn.Module):\n{text}")
        return f"{self._names[text]}()"


def accessor(name: str) -> str:
    """The expression in `forward` that reads the state called `name` (`net.0.weight`)."""
    return "self" + "".join(f"[{p}]" if p.isdigit() else f".{p}" for p in name.split("."))


def local_name(name: str, taken: set[str]) -> str:
    """A local variable's name for a state, free of `taken`: `net.0.weight` is `net_0_weight`."""
    plain = re.sub(r"\W", "_", name)
    while plain in taken:
        plain += "_"
    return plain


def _init(lines: Sequence[str], arguments: str) -> str:
    body = ["super().__init__()", *lines]
    text = "\n".join(" " * 8 + line for entry in body for line in entry.splitlines())
    return f"    def __init__(self{arguments}):\n{text}\n"


def _children(module: nn.Module) -> dict[str, nn.Module]:
    """The submodules that have state."""
    return {name: child for name, child in module.named_children() if child.state_dict()}


def _numbered(names: Mapping[str, Any]) -> bool:
    return bool(names) and all(name.isdigit() for name in names)


def _attribute(name: str) -> str:
    if not name.isidentifier():
        raise LiftRefused(f"a part of the reference is called {name!r}, which is not a Python name")
    return name


def _list(kind: str, parts: Mapping[int, str], filler: str) -> str:
    """Members in order; those without state leave a filler in their place."""
    members = [parts.get(i, filler) for i in range(max(parts) + 1)]
    line = f"{kind}([{', '.join(members)}])"
    if len(line) <= _WIDTH:
        return line
    return f"{kind}(\n    [\n" + "".join(f"        {m},\n" for m in members) + "    ]\n)"


def _layer(module: nn.Module) -> str:
    """`nn.Linear(64, 32)` where building that gives the same state, else nothing."""
    if type(module).__module__.split(".")[0] != "torch" or list(module.children()):
        return ""
    dtypes = {p.dtype for p in module.parameters()}
    suffix = f", dtype={dtypes.pop()}" if dtypes and dtypes != {torch.float32} else ""
    text = f"nn.{type(module).__name__}({module.extra_repr()}{suffix})"
    try:
        text = _without_defaults(text, type(module))
        with torch.device("meta"):
            built = eval(text, {"nn": nn, "torch": torch})  # noqa: S307 -- torch's own description
    # A description that is not a constructor call fails in whatever way it likes.
    except Exception:  # noqa: BLE001 -- see above
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


def _constant(number: int, tensor: torch.Tensor) -> str:
    if tensor.numel() > _LONGEST_CONSTANT:
        raise LiftRefused(
            f"the reference holds a constant tensor of {tensor.numel()} elements",
            todo="register it with register_buffer, so that it is part of the state_dict",
        )
    value = f"torch.tensor({tensor.tolist()}, dtype={tensor.dtype})"
    return f'self.register_buffer("constant_{number}", {value}, persistent=False)'


def _parameter(tensor: torch.Tensor) -> str:
    return f"nn.Parameter({_empty(tensor)})"


def _empty(tensor: torch.Tensor) -> str:
    return f"torch.empty({tuple(tensor.shape)}, dtype={tensor.dtype})"
