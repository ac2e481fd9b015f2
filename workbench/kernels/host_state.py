"""Reads what a candidate's host code remembers from call to call, so that it can be compared.

A hidden counter lets a candidate behave well for as many calls as are checked. Inspected is what
the file itself can reach: its model, globals, defaults, closures and class attributes.
"""

import gc
import hashlib
import time
import warnings
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    FunctionType,
    GeneratorType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np
import torch
from torch import nn

from workbench.kernels.autotune import chosen_last
from workbench.kernels.module_state import state_of

_MOST = 50_000
"""Values that are kept one by one; further ones only enter a digest (ours)."""
_TOO_MANY = 400_000
"""Values beyond which nothing is looked at, and the whole counts as new after every call (ours)."""
_LONG = 1000
"""Elements of a list that are visited one by one; further plain ones become one value (ours)."""
_SHOWN = 80
"""Characters up to which a value is kept as it is; a longer one is hashed (ours)."""
_DEEPEST_GRAPH = 256
"""Most steps to count back through a tensor's autograd graph (ours)."""
_MOST_BYTES = 64 << 20
"""Most bytes of tensors that are hashed (ours)."""
_SMALL = 64
"""Most elements of an integer tensor that is read as values, since it may be a counter (ours)."""
_LIBRARIES = ("torch", "triton", "builtins", "workbench", "numpy")
"""Packages whose objects change their own state, which is not memory of the candidate's."""
_PLAIN = (bool, int, float, str, bytes, complex, range, slice)
_SHOWN_BY_LIBRARIES = (np.generic, torch.device, torch.dtype, torch.layout, torch.memory_format)
"""Plain values too: numbers of numpy, and what torch says of tensors."""
_HIDING = ("builtins", "functools", "itertools", "collections", "contextlib", "types", "_thread")
"""Packages whose objects hold things that only the garbage collector can list."""

_GIVEN = frozenset(
    {"base_fn", "best_config", "configs", "early_config_prune", "fn", "kwargs", "launch_metadata"}
    | {"perf_model"}
    | {"post_hook", "pre_hook", "pre_run_hooks", "user_defined_do_bench", "values"}
    | {"arg_names", "do_not_specialize", "keys", "params", "reset_to_zero", "restore_value"}
)
"""Of Triton's kernels: what the candidate gave, what it can ask for, and lists that Triton only
reads."""
_RECORDS = ("Benchmark", "Config", "TensorDescriptor")
"""Triton's objects that only hold what they are given: all of it counts."""

State = dict[str, str]
"""Representations of values, by the path that leads to each."""
WHOLE = "all values together"
"""The path under which a digest of all values is kept."""


def host_state(model: nn.Module, names: Mapping[str, object], own: frozenset[str]) -> State:
    """Every plain value that a model and its file's globals `names` hold.

    A tensor counts with its shape, dtype and layout, and a small integer tensor also with its
    contents. Contents of tensors of the model's state whose names are in `own` are left out: the
    judge put them there.
    """
    return _looked(model, names, own).state()


def kept_tensors(model: nn.Module, names: Mapping[str, object], own: frozenset[str]) -> str:
    """A digest of the tensors whose contents `host_state` leaves out; empty if there are none.

    Arguments as for `host_state`.
    """
    look = _looked(model, names, own)
    digest, left = hashlib.blake2b(digest_size=16), _MOST_BYTES
    for tensor in look.tensors:
        left -= tensor.nbytes
        if left >= 0:
            digest.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest() if look.tensors else ""


def _looked(model: nn.Module, names: Mapping[str, object], own: frozenset[str]) -> "_Look":
    state = state_of(model).items()
    look = _Look({t.data_ptr() for name, t in state if name in own})
    look.visit("self", model)
    for name, value in names.items():
        if not (name.startswith("__") and name.endswith("__")):
            look.visit(name, value)
    return look


class _Look:
    """Collects everything that can be reached from the visited values."""

    def __init__(self, skipped: set[int]) -> None:
        self._found: State = {}
        self._rest = hashlib.blake2b(digest_size=16)
        """Hashes the values beyond `_MOST`."""
        self.tensors: list[torch.Tensor] = []
        """Tensors whose contents are not among the values."""
        self._seen: dict[int, str] = {}
        """The path by which an object was met first, by its id."""
        self._visited = 0
        self._alive: list[object] = []
        """Visited objects, kept alive so that no other object gets the same id."""
        self._skipped = skipped

    def state(self) -> State:
        """The values, and under `WHOLE` a digest of all: a counter may be spread over many."""
        whole = hashlib.blake2b(self._rest.digest(), digest_size=16)
        for path in sorted(self._found):
            whole.update(f"{path}={self._found[path]}\n".encode(errors="surrogatepass"))
        return {**self._found, WHOLE: whole.hexdigest()}

    def visit(self, path: str, value: object) -> None:
        """Note a plain value, or visit what the value holds."""
        waiting = [(path, value)]
        while waiting:
            self._visited += 1
            if self._visited > _TOO_MANY:
                self._found["more than can be looked at"] = str(time.monotonic_ns())
                return
            path, value = waiting.pop()
            if value is None or _is_plain(value):
                self._note(path, _shown(value))
                continue
            if id(value) in self._seen:
                # Which of several objects a name refers to may be a count too.
                if not (isinstance(value, ModuleType) or _is_judges_choice(path, value)):
                    self._note(f"{path}.is", self._seen[id(value)])
                continue
            self._seen[id(value)] = path
            self._alive.append(value)
            if isinstance(value, torch.Tensor):
                self._tensor(path, value)
                waiting += [(f"{path}.grad", value.grad)] if value.is_leaf else []
                continue
            waiting += [(f"{path}{name}", part) for name, part in _parts(value)][::-1]

    def _note(self, path: str, shown: str) -> None:
        if len(self._found) < _MOST:
            self._found[path] = shown
        else:
            self._rest.update(shown.encode(errors="surrogatepass"))

    def _tensor(self, path: str, tensor: torch.Tensor) -> None:
        strided = tensor.layout is torch.strided and tensor.device.type == "cpu"
        own = strided and bool(tensor.numel()) and tensor.data_ptr() in self._skipped
        self._note(f"{path}.kind", _kind(tensor))
        if own or not strided or not tensor.numel():
            return
        if not tensor.is_floating_point() and tensor.numel() <= _SMALL:
            self._note(path, str(tensor.tolist()))
        else:
            self.tensors.append(tensor)


def _is_plain(value: object) -> bool:
    kind = type(value)
    return kind in _PLAIN or (
        isinstance(value, _SHOWN_BY_LIBRARIES) and kind.__module__ in ("numpy", "torch")
    )


def _shown(value: object) -> str:
    """A short text for a plain value, different for different values."""
    if type(value) is int and value.bit_length() > 4 * _SHOWN:  # repr refuses very long numbers
        value = hex(value)
    text = repr(value)
    if len(text) <= _SHOWN:
        return text
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _kind(tensor: torch.Tensor) -> str:
    """What is known of a tensor without its contents: shape, dtype, layout, depth of its graph."""
    depth, node = 0, tensor.grad_fn
    while node is not None and depth < _DEEPEST_GRAPH:
        depth += 1
        node = next((inner for inner, _ in node.next_functions if inner is not None), None)
    lies = (tuple(tensor.stride()), tensor.storage_offset()) if not tensor.is_sparse else ()
    return f"{tuple(tensor.shape)} {tensor.dtype} {lies} {tensor.requires_grad} {depth}"


def _is_judges_choice(path: str, value: object) -> bool:
    """Whether an autotuner's best configuration is the one that it was made to launch."""
    return path.endswith(".best_config") and chosen_last(value)


def _parts(value: object) -> Iterator[tuple[str, object]]:
    """What a value holds, each with the path to it. Runs none of the candidate's code."""
    if isinstance(value, dict):
        yield ".len()", len(value)
        names = [repr(k)[:40] if type(k) in (str, int, tuple) else id(k) for k in dict.keys(value)]
        yield ".order", repr(names)
        for name, item in zip(names, list(dict.values(value)), strict=True):
            yield f"[{name}]", item
        yield from _beside_elements(value)
    elif isinstance(value, list | tuple | deque | set | frozenset):
        yield from _of_elements(list(value))
        yield from _beside_elements(value)
    elif isinstance(value, FunctionType | MethodType | GeneratorType):
        yield from _of_code(value)
    elif isinstance(value, Iterator) and type(value).__module__ in ("builtins", "itertools"):
        with warnings.catch_warnings(action="ignore"):  # deprecated for itertools
            rest = value.__reduce__()
        yield ".rest", rest
    elif type(value) is np.ndarray:
        objects = value.dtype.hasobject
        yield ".values", value.reshape(-1).tolist() if objects else value.tobytes()
    elif isinstance(value, torch.Generator):
        yield ".state", bytes(value.get_state().tolist())
    elif isinstance(value, BuiltinFunctionType):
        yield ".self", value.__self__
    elif not isinstance(value, ModuleType | CodeType | FrameType):
        yield from _attributes(value)


def _of_elements(elements: list[object]) -> Iterator[tuple[str, object]]:
    yield ".len()", len(elements)
    for place, item in enumerate(elements[:_LONG]):
        yield f"[{place}]", item
    rest = elements[_LONG:]
    if rest:
        yield f"[{_LONG}:]", repr([item for item in rest if type(item) in _PLAIN])
        others = [item for item in rest if item is not None and type(item) not in _PLAIN]
        for place, item in enumerate(others):
            yield f"[{_LONG}:][{place}]", item


def _beside_elements(value: object) -> Iterator[tuple[str, object]]:
    """What a container of a class derived from Python's holds besides its elements."""
    if type(value) in (dict, list, tuple, set, frozenset):
        return
    if isinstance(value, defaultdict):
        yield ".default_factory", value.default_factory
    yield from ((f".{name}", part) for name, part in getattr(value, "__dict__", {}).items())
    yield from _slots(value)


def _of_code(
    value: "FunctionType | MethodType | GeneratorType[Any, Any, Any]",
) -> Iterator[tuple[str, object]]:
    """What a function, a method or a running generator holds."""
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
        # A loop's iterator and the generator behind `yield from` have no name.
        held = [part for part in gc.get_referents(value) if not isinstance(part, FunctionType)]
        yield from ((f".held[{place}]", part) for place, part in enumerate(held))


def _attributes(value: object) -> Iterator[tuple[str, object]]:
    """Attributes of the candidate's objects and classes; of a library's, those it may have set."""
    owner = value if isinstance(value, type) else type(value)
    module = str(owner.__module__).split(".", maxsplit=1)[0]
    if module in _LIBRARIES and isinstance(value, type):
        return
    try:
        found = dict(vars(value))
    except TypeError:
        found = {}
    every = module not in _LIBRARIES or isinstance(value, nn.Module) or owner.__name__ in _RECORDS
    if isinstance(value, BaseException):
        yield ".args", value.args
    for name, part in found.items():
        if every or type(part) in _PLAIN or (module == "triton" and name in _GIVEN):
            yield f".{name}", part
    if module in _HIDING and not isinstance(value, type):
        held = [part for part in gc.get_referents(value) if part is not type(value)]
        yield from ((f".held[{place}]", part) for place, part in enumerate(held))
    elif every and not isinstance(value, type | nn.Module):
        yield from _slots(value)


def _slots(value: object) -> Iterator[tuple[str, object]]:
    """What an object holds in `__slots__`."""
    for owner in type(value).__mro__:
        for name, member in vars(owner).items():
            if type(member).__name__ == "member_descriptor":
                try:
                    yield f".{name}", member.__get__(value)
                except AttributeError:  # not set
                    continue


def _content(cell: object) -> object:
    try:
        return getattr(cell, "cell_contents", None)
    except ValueError:  # an empty cell
        return None


class CallCounter:
    """Finds a counter: a value that is new after every call."""

    ENOUGH = 8
    """Calls in a row that bring a new value (ours). Addresses used as keys repeat sooner."""

    def __init__(self) -> None:
        self._values: dict[str, set[str]] = {}
        self._run: dict[str, int] = {}

    def after_call(self, state: State) -> str:
        """Note the state after one more call; the path of a counter, or an empty string."""
        for path, value in state.items():
            seen = self._values.setdefault(path, set())
            fresh = value not in seen
            seen.add(value)
            self._run[path] = self._run.get(path, 0) + 1 if fresh else 0
        found = [path for path, run in self._run.items() if run >= self.ENOUGH]
        return min(found, key=lambda path: path == WHOLE, default="")

    @property
    def undecided(self) -> bool:
        """Whether some value has been new after each of the last two calls."""
        return any(run > 1 for run in self._run.values())


def changed(before: State, after: State) -> str:
    """The path of a value that has changed, or an empty string. Growth shows in a length."""
    found = (path for path, value in before.items() if after.get(path, value) != value)
    return next((path for path in found if path != WHOLE), "")
