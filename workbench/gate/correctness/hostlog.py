"""Which torch operators a candidate's host code dispatched. Runs in candidate workers only.

Backs up the static policy: whatever name a call went by, the dispatcher sees the operator. The log
is a claim by the worker itself, so it can only convict a candidate, never clear it.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import torch
import triton
from torch._library.custom_ops import OPDEFS
from torch.overrides import TorchFunctionMode

from workbench.gate.correctness.protocol import Operator
from workbench.kernels.operators import OperatorMode
from workbench.kernels.storages import storage_address

ALLOWED_OPERATORS = frozenset(
    {
        # allocation and constants
        "arange", "empty", "empty_like", "empty_permuted", "empty_strided", "eye", "fill", "fill_",
        "full", "full_like", "lift", "lift_fresh", "lift_fresh_copy", "new_empty",
        "new_empty_strided", "new_full", "new_ones", "new_zeros", "ones", "ones_like", "resize_",
        "scalar_tensor", "zero_", "zeros", "zeros_like",
        # views
        "_reshape_alias", "_unsafe_view", "alias", "as_strided", "chunk", "detach",
        "diagonal", "expand", "flatten", "imag", "movedim", "narrow", "permute", "real", "reshape",
        "select", "set_", "slice", "split", "split_with_sizes", "squeeze", "t", "transpose",
        "unbind", "unfold", "unsqueeze", "view", "view_as", "view_as_complex", "view_as_real",
        # copies and casts: they move data, they compute nothing
        "_copy_from", "_to_copy", "cat", "clone", "constant_pad_nd", "contiguous", "copy", "copy_",
        "pin_memory", "repeat", "stack", "to",
        # metadata, and single values read by the host
        "_local_scalar_dense", "dim", "is_nonzero", "is_pinned", "is_same_size", "item", "numel",
        "record_stream", "size", "storage_offset", "stride", "sym_numel", "sym_size", "sym_stride",
        # ranges for a profiler
        "_record_function_enter", "_record_function_enter_new", "_record_function_exit",
    }
)  # fmt: skip
"""By the operator's name without namespace and overload. Every other operator computes."""

BOOKKEEPING = frozenset({"add_", "addcmul_", "div_", "lerp_", "mul_", "sub_"})
"""Allowed in place on buffers of the reference's state: running statistics and counters."""

_MOVES = frozenset(
    {"_copy_from", "_to_copy", "cat", "clone", "constant_pad_nd", "contiguous", "copy", "copy_"}
    | {"lift_fresh_copy", "repeat", "stack", "to"}
)
"""Copies: the result counts as an input too."""

MOST_UPDATES = 16
"""In-place updates of one buffer in one call (ours): a running statistic takes three, a sum over
rows one per row."""

MOST_READ = 64
"""Scalars that the host may read in one call (ours): settings, not a tensor's contents."""

_SCALARS = frozenset({"_local_scalar_dense", "is_nonzero", "item"})
_READERS = frozenset(
    {"__array__", "__dlpack__", "_typed_storage", "numpy", "storage", "tolist", "untyped_storage"}
)
"""Methods by which a tensor's contents leave torch without a dispatched operator."""
_NAMESPACES = frozenset({"aten", *(name.partition("::")[0] for name in OPDEFS)})
"""Of operators that torch itself registers, before any candidate is loaded."""
_OTHERS = (str(Path(triton.__file__).parent), str(Path(__file__).parents[2]))
"""Modules of triton and of ours, whose reads are not the candidate's."""


class HostLog(OperatorMode):
    """Counts the operators of one call, with the candidate's lines that they came from.

    `state` are the tensors of its module, whose scalars it may read; of them `buffers`, which the
    reference has too, may be updated in place. `inputs` are the call's.
    """

    def __init__(
        self,
        filename: str,
        *,
        state: Iterable[torch.Tensor] = (),
        buffers: Iterable[torch.Tensor] = (),
        inputs: Iterable[torch.Tensor] = (),
    ) -> None:
        super().__init__()
        self._filename = filename
        self._state = frozenset(map(storage_address, state))
        self._buffers = frozenset(map(storage_address, buffers))
        self._inputs = frozenset(map(storage_address, inputs))
        self._updates: Counter[int] = Counter()
        self._moved: set[int] = set()
        """Storages that hold a copy of an input."""
        self._carrying: set[int] = set()
        """State into which host code wrote a tensor in this call: its values are data now."""
        self._read = 0
        self._counts: Counter[tuple[str, bool]] = Counter()
        self._lines: dict[tuple[str, bool], int | None] = {}

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Record what the body dispatches, and what it reads without a dispatched operator."""
        with _Readers(self), self:
            yield

    def note(self, name: str, *, allowed: bool) -> None:
        """Count one use."""
        used = name, allowed
        if used not in self._counts:
            self._lines[used] = self._line()
        self._counts[used] += 1

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        own = _own_function(func)
        if own is not None:
            with self:  # what it does is looked at, not its name
                return own(*args, **(kwargs or {}))
        name = str(getattr(func, "overloadpacket", func))
        operator = name.rsplit(".", maxsplit=1)[-1]
        self.note(name, allowed=self._allows(operator, args) or not self.asks())
        out = func(*args, **(kwargs or {}))
        self._follow(operator, args, out)
        return out

    def _follow(self, operator: str, args: tuple[object, ...], out: object) -> None:
        """Track where copies of inputs lie. Newly allocated memory holds none."""
        held = set(map(storage_address, _tensors(args)))
        moves = operator in _MOVES and not held.isdisjoint(self._inputs | self._moved)
        for place in map(storage_address, _tensors((out,))):
            if moves:
                self._moved.add(place)
            elif place not in held:
                self._moved.discard(place)

    def _allows(self, operator: str, args: tuple[object, ...]) -> bool:
        tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
        target = storage_address(tensors[0]) if tensors else 0
        if operator in _SCALARS:
            return self._may_read(target)
        if target in self._state and len(tensors) > 1:
            self._carrying.add(target)
        if operator not in BOOKKEEPING:
            return operator in ALLOWED_OPERATORS
        self._updates[target] += 1
        return (
            target in self._buffers
            and self._updates[target] <= MOST_UPDATES
            and (self._inputs | self._moved).isdisjoint(map(storage_address, tensors))
        )

    def _may_read(self, storage: int) -> bool:
        if not self.asks():
            return True
        self._read += 1
        return (
            storage in self._state
            and storage not in self._carrying | self._inputs
            and self._read <= MOST_READ
        )

    def asks(self) -> bool:
        """Whether the candidate's own file asks for this, and not Triton or we for it."""
        frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 -- as below
        while frame is not None:
            name, mode = frame.f_code.co_filename, frame.f_code.co_name.startswith("__torch_")
            if name == self._filename:
                return True
            if name.startswith(_OTHERS) and name != __file__ and not mode:
                return False
            frame = frame.f_back
        return False

    def operators(self) -> list[Operator]:
        """What was dispatched, in the order of first use."""
        return [
            Operator(name, times, self._lines[name, allowed], allowed, reads=_reads(name))
            for (name, allowed), times in self._counts.items()
        ]

    def _line(self) -> int | None:
        # Walk to the caller's line without a traceback.
        frame: FrameType | None = sys._getframe(2)  # noqa: SLF001 -- the stack has no public door that is as cheap
        while frame is not None and frame.f_code.co_filename != self._filename:
            frame = frame.f_back
        return None if frame is None else frame.f_lineno


def _own_function(func: Callable[..., object]) -> Callable[..., object] | None:
    """The candidate's function behind an operator that it registered; None of torch's operators."""
    if getattr(func, "namespace", "aten") in _NAMESPACES:
        return None
    schema = getattr(func, "_schema", None)
    own = OPDEFS.get(schema.name) if schema is not None else None
    # Not dispatched again: inside of an operator torch has switched this mode off.
    return None if own is None else own._init_fn  # noqa: SLF001 -- triton has no public name for it


def _tensors(values: Iterable[object]) -> list[torch.Tensor]:
    """Tensors among arguments or results, and in the lists among those."""
    found: list[torch.Tensor] = []
    for value in values:
        inner = value if isinstance(value, list | tuple) else (value,)
        found += [one for one in inner if isinstance(one, torch.Tensor)]
    return found


def _reads(name: str) -> bool:
    return name.rsplit(".", maxsplit=1)[-1] in _SCALARS | _READERS


class _Readers(TorchFunctionMode):
    """Reports calls of methods that the dispatcher does not see."""

    def __init__(self, log: HostLog) -> None:
        super().__init__()
        self._log = log

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        name = getattr(func, "__name__", "")
        if name in _READERS and self._log.asks():
            self._log.note(f"Tensor.{name}", allowed=False)
        return func(*args, **(kwargs or {}))
