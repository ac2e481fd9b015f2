"""What a candidate's host code remembers from call to call, as values that can be compared.

A counter hidden in it lets a candidate behave well for as many calls as are checked. Looks at what
the file itself can reach: its model, its globals, defaults, closures and class attributes.
"""

import hashlib
import itertools
from collections import deque
from collections.abc import Iterator, Mapping
from types import FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any

import torch
from torch import nn

_MOST = 20_000
"""Values that are looked at; what lies deeper is not (ours)."""
_MOST_BYTES = 64 << 20
"""Of tensors that are digested (ours)."""
_SMALL = 64
"""Elements of an integer tensor that may be a counter."""
_LIBRARIES = ("torch", "triton", "builtins", "workbench", "numpy")
"""Whose objects change what they keep by themselves."""
_ITERATORS: tuple[type, ...] = (
    *(type(iter([])), type(iter(())), type(iter(range(0))), type(iter("")), type(iter({}))),
    *(itertools.count, itertools.cycle, itertools.repeat, itertools.chain, enumerate, zip),
)

State = dict[str, str]
"""Values by the path that leads to them."""


def host_state(model: nn.Module, names: Mapping[str, object], own: frozenset[str]) -> State:
    """Every plain value that a model and its file's globals hold.

    Tensors count when they are small and of integers, and none of the state called `own`.
    """
    state = nn.Module.state_dict(model).items()
    skipped = {t.data_ptr() for name, t in state if name in own}
    look = _Look(skipped)
    look.visit("self", model)
    for name, value in names.items():
        if not name.startswith("__"):
            look.visit(name, value)
    return look.found


def kept_tensors(model: nn.Module, names: Mapping[str, object], own: frozenset[str]) -> str:
    """A digest of every other tensor that they hold; empty where there is none."""
    state = nn.Module.state_dict(model).items()
    look = _Look({t.data_ptr() for name, t in state if name in own})
    look.visit("self", model)
    for name, value in names.items():
        if not name.startswith("__"):
            look.visit(name, value)
    digest, left = hashlib.blake2b(digest_size=16), _MOST_BYTES
    for tensor in look.tensors:
        left -= tensor.nbytes
        if left >= 0:
            digest.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest() if look.tensors else ""


class _Look:
    """One look at everything that can be reached."""

    def __init__(self, skipped: set[int]) -> None:
        self.found: State = {}
        self.tensors: list[torch.Tensor] = []
        """Those that are not noted as values."""
        self._seen: set[int] = set()
        self._skipped = skipped

    def visit(self, path: str, value: object) -> None:
        """Note a value, or what it holds."""
        if len(self.found) >= _MOST:
            return
        if value is None or type(value) in (bool, int, float, str, bytes, complex):
            self.found[path] = repr(value)[:80]
            return
        if id(value) in self._seen:
            return
        self._seen.add(id(value))
        if isinstance(value, torch.Tensor):
            self._tensor(path, value)
            return
        for name, part in _parts(value):
            self.visit(f"{path}{name}", part)

    def _tensor(self, path: str, tensor: torch.Tensor) -> None:
        strided = tensor.layout is torch.strided and tensor.device.type == "cpu"
        if not strided or not tensor.numel() or tensor.data_ptr() in self._skipped:
            return
        if not tensor.is_floating_point() and tensor.numel() <= _SMALL:
            self.found[path] = str(tensor.tolist())
        else:
            self.tensors.append(tensor)


def _parts(value: object) -> Iterator[tuple[str, object]]:
    """What a value holds, by how it is reached. Runs none of the candidate's code."""
    if isinstance(value, dict):
        yield ".len()", len(value)
        for key, item in list(dict.items(value)):
            yield f"[{repr(key)[:40] if type(key) in (str, int, tuple) else id(key)}]", item
    elif isinstance(value, list | tuple | deque | set | frozenset):
        yield ".len()", len(value)
        for place, item in enumerate(list(value)[:1000]):
            yield f"[{place}]", item
    elif isinstance(value, FunctionType | MethodType | GeneratorType):
        yield from _of_code(value)
    elif isinstance(value, _ITERATORS):
        yield ".rest", repr(value.__reduce__())[:200]
    elif not isinstance(value, ModuleType):
        yield from _attributes(value)


def _of_code(
    value: "FunctionType | MethodType | GeneratorType[Any, Any, Any]",
) -> Iterator[tuple[str, object]]:
    """What a function, a method or a running generator carries along."""
    if isinstance(value, MethodType):
        yield "", value.__func__
        yield ".self", value.__self__
    elif isinstance(value, FunctionType):
        yield ".defaults", value.__defaults__
        yield ".kwdefaults", value.__kwdefaults__
        yield ".attributes", vars(value)
        for place, cell in enumerate(value.__closure__ or ()):
            yield f".closure[{place}]", _content(cell)
    else:
        frame = value.gi_frame
        yield ".at", frame.f_lasti if frame is not None else -1
        yield ".locals", dict(frame.f_locals) if frame is not None else None


def _attributes(value: object) -> Iterator[tuple[str, object]]:
    """Of an object or a class of the candidate's; of a library's objects their plain ones."""
    owner = value if isinstance(value, type) else type(value)
    library = str(owner.__module__).split(".")[0] in _LIBRARIES
    if library and isinstance(value, type):
        return
    try:
        found = dict(vars(value))
    except TypeError:
        return
    for name, part in found.items():
        if not library or isinstance(value, nn.Module) or type(part) in (bool, int, float, str):
            yield f".{name}", part


def _content(cell: object) -> object:
    try:
        return getattr(cell, "cell_contents", None)
    except ValueError:  # an empty cell
        return None


class CallCounter:
    """Finds values that are new after every call."""

    ENOUGH = 8
    """Calls in a row that each bring a new value (ours): keys by address come up again before."""

    def __init__(self) -> None:
        self._values: dict[str, set[str]] = {}
        self._run: dict[str, int] = {}

    def after_call(self, state: State) -> str:
        """Note what is remembered after one more call; the path of a counter, or nothing."""
        for path, value in state.items():
            seen = self._values.setdefault(path, set())
            fresh = value not in seen
            seen.add(value)
            self._run[path] = self._run.get(path, 0) + 1 if fresh else 0
        return next((path for path, run in self._run.items() if run >= self.ENOUGH), "")


def changed(before: State, after: State) -> str:
    """The path of a value that is another one now; what grows shows by its length."""
    return next((path for path, value in before.items() if after.get(path, value) != value), "")
