"""Patches `triton.language` for the interpreter, and restores it."""

import ast
import contextlib
import functools
import importlib
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter as triton_interpreter
from triton.runtime.jit import JITFunction

from workbench.kernels import interpret_hints, interpret_reduce
from workbench.kernels.faults import CannotJudge
from workbench.kernels.interpret_builder import TracedBuilder
from workbench.kernels.interpret_builds import CompiledAhead, CompiledByLaunch, found
from workbench.kernels.interpret_rewrite import SIZES, KernelRewriter, TracedSemantic
from workbench.kernels.records import Build
from workbench.kernels.trace_launch import candidate_line, is_library
from workbench.kernels.untyped import Untyped

Launch = Callable[[Untyped, tuple[Any, ...], dict[str, Any]], None]
"""Receives triton's grid executor, and the positional and named arguments of one launch."""

_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift")
_LOGICAL = ("and", "or", "xor")
_OPERATORS = {
    *(f"{side}{name}" for name in (*_BINARY, *_LOGICAL) for side in ("", "r")),
    *("lt", "le", "gt", "ge", "eq", "ne"),
}
_ADDRESS = np.dtype(np.uint64)
_rewritten: dict[Any, Any] = {}
"""Kernels as `KernelRewriter` rewrites them, kept apart from triton's own rewriting."""


@contextlib.contextmanager
def language(launch: Launch, builds: Sequence[Build] = ()) -> Iterator[None]:
    """Install our interpreter for `triton.language` until the block ends; `launch` gets every
    launch, and `builds` answer host code that compiles ahead.
    """
    interpreter = triton_interpreter
    scope = interpreter._patch_lang(SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))  # noqa: SLF001 -- triton has no public name for it
    builder, semantic = interpreter.interpreter_builder, interpreter.interpreter_semantic
    try:
        scope.set_attr(builder, "__class__", TracedBuilder)
        scope.set_attr(builder, "options", builder.adapted())
        scope.set_attr(semantic, "__class__", TracedSemantic)
        scope.set_attr(interpreter.FunctionRewriter, "ast_transformer", KernelRewriter())
        scope.set_attr(interpreter.InterpretedFunction, "rewritten_fn", _rewritten)
        rewrite = interpreter.FunctionRewriter._compile_and_exec  # noqa: SLF001 -- triton has no public name for it
        scope.set_attr(interpreter.FunctionRewriter, "_compile_and_exec", _with_closure(rewrite))
        scope.set_attr(interpreter.InterpretedFunction, "__call__", _call_device_function)
        scope.set_attr(interpreter, "InterpretedFunction", _Kernel)
        scope.set_attr(_Kernel, "builds", builds)
        scope.set_attr(
            interpreter.GridExecutor,
            "__call__",
            lambda executor, *args, **named: launch(executor, args, named),
        )
        for module in (tl, tl.core):
            scope.set_attr(module, "static_range", _static_range)
            interpret_hints.patch(scope, module)
        scope.set_attr(tl.core.tensor, "__index__", _whole_number)
        scope.set_attr(interpreter, "_get_np_dtype", _numpy_types(interpreter._get_np_dtype))  # noqa: SLF001 -- triton has no public name for it
        _patch_constants(scope)
        _patch_types(scope)
        interpret_reduce.patch(scope)
        _patch_libdevice(scope, semantic)
        _patch_device(scope)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            yield
    finally:
        scope.restore()


def _whole_number(tensor: Untyped) -> int:
    """The value of a scalar where Python needs an int: a decision of the program's path."""
    triton_interpreter.interpreter_builder.decided(tensor.handle)
    return int(tensor.handle.data.reshape(-1)[0])


def _call_device_function(function: Untyped, *args: Untyped, **named: Untyped) -> Untyped:
    """Call a jit function from another one: the language is patched already."""
    return function.rewrite()(*args, **named)


class _Kernel(triton_interpreter.InterpretedFunction):  # type: ignore[misc]  # triton is untyped
    """What `triton.jit` returns: shows a candidate the attributes of a compiled kernel."""

    builds: Sequence[Build] = ()
    """What the compiler made of kernels that host code compiles ahead."""

    @property  # type: ignore[misc]  # it cannot be set
    def __class__(self) -> type:
        caller = sys._getframe(1).f_code.co_filename  # noqa: SLF001 -- no public walk up
        return type(self) if is_library(caller) else JITFunction

    def __repr__(self) -> str:
        return f"JITFunction({self.fn.__module__}:{self.fn.__qualname__})"

    def run(
        self,
        *args: Any,  # noqa: ANN401 -- whatever the kernel takes
        grid: Untyped,
        warmup: bool,
        **named: Any,  # noqa: ANN401 -- the same
    ) -> CompiledAhead | CompiledByLaunch:
        """Launch, or only compile; either answers with the compiled kernel, as triton does."""
        if warmup:
            return found(self.builds, self, args, named)
        super().run(*args, grid=grid, warmup=False, **named)
        return CompiledByLaunch(self.fn.__name__)


def _with_closure(compile_and_exec: Untyped) -> Untyped:
    """Rewrite a nested kernel with its closure, which triton's rewriting at file level loses."""

    def compiled(rewriter: Untyped, tree: ast.Module) -> Untyped:
        closed = rewriter.fn.__closure__ or ()
        names = rewriter.fn.__code__.co_freevars
        if not names:
            return compile_and_exec(rewriter, tree)
        kernel = tree.body[0]
        maker = ast.parse(f"def {_MAKER}({', '.join(names)}): pass\n")
        outer = maker.body[0]
        if not isinstance(outer, ast.FunctionDef) or not isinstance(kernel, ast.FunctionDef):
            return compile_and_exec(rewriter, tree)
        given = ast.Return(ast.Name(id=kernel.name, ctx=ast.Load()))
        outer.body = [kernel, given]
        fixed = ast.fix_missing_locations(maker)
        scope: dict[str, Any] = {**rewriter.kwargs}
        names_of = rewriter.fn.__globals__
        for name, value in vars(triton_interpreter).items():
            names_of.setdefault(name, value)
        exec(compile(fixed, rewriter.filename, "exec"), names_of, scope)  # noqa: S102 -- triton's way
        return scope[_MAKER](*(cell.cell_contents for cell in closed))

    return compiled


_MAKER = "workbench_closure"


def _static_range(
    first: int, second: int | None = None, step: int = 1, **_: object
) -> Iterator[int]:
    """An unrolled loop: unlike in a real loop, loads of all trips may be in flight together."""
    watch = triton_interpreter.interpreter_builder.watch
    outer = watch.unrolled
    try:
        for value in range(first) if second is None else range(first, second, step):
            watch.unrolled = (*outer, value)
            yield value
    finally:
        watch.unrolled = outer


def _patch_constants(scope: Untyped) -> None:
    """A constexpr combined with a tensor gives a tensor; triton wraps it as a constexpr."""
    for name in dir(tl.constexpr):
        operator = getattr(tl.constexpr, name)
        if name.strip("_") in _OPERATORS and inspect.isfunction(operator):
            scope.set_attr(tl.constexpr, name, _without_wrapping(operator))


def _without_wrapping(operator: Untyped) -> Untyped:
    def operate(constant: Untyped, other: Untyped) -> Untyped:
        result = operator(constant, other)
        value = getattr(result, "value", None)
        return value if isinstance(value, tl.tensor) else result

    return operate


def _patch_types(scope: Untyped) -> None:
    """Cache the types of blocks and tensors by shape.

    Triton rebuilds them for every operation: a fifth of the time of an interpreted program.
    """
    make_type, make_tensor = tl.block_type.__init__, tl.tensor.__init__
    types: dict[tuple[int, ...], dict[str, Any]] = {}

    def block_type(self: Untyped, element: Untyped, shape: Untyped) -> None:
        key = (id(element), *[n if type(n) is int else n.value for n in shape])
        known = types.get(key)
        if known is None:
            make_type(self, element, shape)
            known = types[key] = {**vars(self), "tensor_parts": {}, SIZES: key[1:]}
        self.__dict__.update(known)

    def tensor(self: Untyped, handle: Untyped, kind: Untyped) -> None:
        parts = vars(kind).get("tensor_parts")
        if not parts:
            make_tensor(self, handle, kind)
            if parts is not None:
                parts.update({k: v for k, v in vars(self).items() if k not in {"handle", "type"}})
            return
        self.__dict__.update(parts, handle=handle, type=kind)

    scope.set_attr(tl.block_type, "__init__", block_type)
    scope.set_attr(tl.tensor, "__init__", tensor)


def _numpy_types(original: Untyped) -> Untyped:
    """Triton's mapping to numpy types, cached: it rebuilds its table for every handle."""
    known: dict[str, Any] = {}

    def numpy_type(kind: Untyped) -> Untyped:
        element = kind.element_ty if isinstance(kind, tl.block_type) else kind
        if isinstance(element, tl.pointer_type):
            return _ADDRESS
        if element.name not in known:
            known[element.name] = original(element)
        return known[element.name]

    return numpy_type


def _patch_libdevice(scope: Untyped, semantic: Untyped) -> None:
    """Route libdevice functions to the builder; outside a compiler the stubs return None."""
    from triton.language.extra import libdevice as stubs
    from triton.language.extra.cuda import libdevice

    for name, function in list(vars(libdevice).items()):
        if tl.core.is_builtin(function):
            bound = _with_semantic(function, semantic)
            scope.set_attr(libdevice, name, bound)
            if hasattr(stubs, name):
                scope.set_attr(stubs, name, bound)


_OF_THE_DEVICE = ("globaltimer", "smid", "num_threads", "num_warps")


def _patch_device(scope: Untyped) -> None:
    """Replace waiting for other launches, and queries about the GPU, whose answers are unknown."""
    # `tl.extra.cuda` need not be the module that an import finds.
    for module in (tl.extra.cuda, importlib.import_module("triton.language.extra.cuda")):
        for name in (*_KNOWN, *_OF_THE_DEVICE):
            if hasattr(module, name):
                known = name in _KNOWN
                stand_in = _KNOWN[name] if known else functools.partial(_not_known, name)
                scope.set_attr(module, name, stand_in)


def _nothing(**_: object) -> None:
    """Stands in for an instruction that changes no value."""


def _wait(**_: object) -> None:
    """Launches never overlap here; what would meet where they do is told by the watch."""
    triton_interpreter.interpreter_builder.watch.joins()


_KNOWN = {"gdc_wait": _wait, "gdc_launch_dependents": _nothing}


def _not_known(name: str, **_: object) -> None:
    watch = triton_interpreter.interpreter_builder.watch
    raise CannotJudge(name, kernel=watch.kernel, line=candidate_line())


def _with_semantic(function: Untyped, semantic: Untyped) -> Untyped:
    return lambda *args, **named: function(*args, **{**named, "_semantic": semantic})
