"""Kernels that host code compiles ahead of a launch, and how one is found again by its arguments.

The same description of a call is made where it is compiled and where it is interpreted. It holds
what the compiler specializes code for: types, constants, alignment of addresses, and whether an
integer is 1 or a multiple of 16.
"""

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from triton.runtime.jit import JITFunction

from workbench.kernels.records import Build
from workbench.kernels.static import registers_and_spills
from workbench.kernels.untyped import Untyped

_ALIGNED = 16
"""What triton tells the compiler of addresses and integers: whether this divides them."""
_TOLD = ("name", "num_ctas", "num_stages", "num_warps", "shared", "warp_size")
"""Fields of a compiled kernel's metadata that are recorded."""


def described(
    function: Callable[..., object], args: Sequence[object], named: Mapping[str, object]
) -> tuple[dict[str, str], dict[str, str]]:
    """How the compiler sees the arguments of a jit function, by parameter, and the options given.

    Raises TypeError where they do not fit the function's parameters.
    """
    signature = inspect.signature(function)
    known = {name: value for name, value in named.items() if name in signature.parameters}
    bound = signature.bind(*args, **known)
    bound.apply_defaults()
    arguments = {
        name: f"={value!r}" if _is_constant(signature.parameters[name]) else _seen(value)
        for name, value in bound.arguments.items()
    }
    options = {name: repr(value) for name, value in named.items() if name not in known}
    return arguments, options


def fits(compiled: Mapping[str, str], launched: Mapping[str, str]) -> bool:
    """Whether code compiled for some arguments is right for others: it assumes nothing that does
    not hold.
    """
    return compiled.keys() == launched.keys() and all(
        seen in (launched[name], launched[name].partition(":")[0])
        for name, seen in compiled.items()
    )


@contextlib.contextmanager
def noting_builds(builds: list[Build], threads: int) -> Iterator[None]:
    """List every kernel that host code only compiles; `threads` is the target's limit of one."""
    original = JITFunction.run

    def run(self: Untyped, *args: object, grid: Untyped, warmup: bool, **named: object) -> Untyped:
        made = original(self, *args, grid=grid, warmup=warmup, **named)
        if warmup and made is not None:
            build = _build(self.fn, args, named, made, threads)
            if build not in builds:
                builds.append(build)
        return made

    JITFunction.run = run
    try:
        yield
    finally:
        JITFunction.run = original


def _build(
    function: Untyped, args: Sequence[object], named: Mapping[str, object], made: Untyped, most: int
) -> Build:
    arguments, options = described(function, args, named)
    registers, spills = registers_and_spills(made.kernel)
    return Build(
        kernel=function.__name__,
        arguments=arguments,
        options=options,
        registers=registers,
        spills=spills,
        threads=most,
        metadata={name: getattr(made.metadata, name) for name in _TOLD},
    )


def _is_constant(parameter: inspect.Parameter) -> bool:
    return "constexpr" in str(parameter.annotation)


def _seen(value: Untyped) -> str:
    """A value's type, and after a colon what else the compiler is told of it."""
    match value:
        case bool():
            return "i1"
        case int():
            return _width(value) + (":1" if value == 1 else _multiple(value))
        case float():
            return "fp32"
        case tuple():
            return f"({', '.join(map(_seen, value))})"
    if hasattr(value, "block_shape"):
        return f"descriptor of {value.base.dtype} {tuple(value.block_shape)}"
    tensor = hasattr(value, "data_ptr")
    return f"*{value.dtype}{_multiple(_offset(value))}" if tensor else f"={value!r}"


def _width(value: int) -> str:
    if -(2**31) <= value < 2**31:
        return "i32"
    return "i64" if value < 2**63 else "u64"


def _multiple(value: int) -> str:
    return "" if value % _ALIGNED else f":{_ALIGNED}"


def _offset(value: Untyped) -> int:
    """Bytes from the start of a tensor's storage, which a GPU aligns; a mock has none."""
    tensor = value if isinstance(value, torch.Tensor) else getattr(value, "base", None)
    if not isinstance(tensor, torch.Tensor):
        return 0
    with torch._C.DisableTorchFunction():  # noqa: SLF001 -- past the stand-in's own mode
        return int(tensor.storage_offset()) * tensor.element_size()
