"""Reads the module that Inductor wrote: its kernels, and the steps that allocate and launch."""

import ast
from collections.abc import Iterator

from msgspec import Struct

from workbench.kernels.inductor.records import LiftRefused

_SILENT = ("assert_size_stride", "assert_alignment", "torch.cuda.set_device", "args.clear")


class Allocate(Struct, frozen=True):
    """`name` becomes a new buffer."""

    name: str
    size: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    """Name of the dtype: `torch.float32`."""


class Rename(Struct, frozen=True):
    """`name` becomes what the expression gives: another buffer, or a view of one."""

    name: str
    value: ast.expr


class Launch(Struct, frozen=True):
    """A kernel is launched on buffers and integers, in its own parameters' order."""

    kernel: str
    arguments: tuple[ast.expr, ...]


class Free(Struct, frozen=True):
    """`name` is not needed any more."""

    name: str


Step = Allocate | Rename | Launch | Free


class Program(Struct, frozen=True):
    """What the module does, in order."""

    kernels: dict[str, str]
    """Name to text, decorators and imports included."""
    inputs: tuple[str, ...]
    steps: tuple[Step, ...]
    outputs: tuple[ast.expr, ...]


def read_wrapper(text: str) -> Program:
    """The program in Inductor's text. Raises LiftRefused for a library call or an unknown step."""
    tree = ast.parse(text)
    kernels = dict(_kernels(tree))
    call = next(
        (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "call"), None
    )
    if call is None:
        raise LiftRefused("Inductor's module has no `call`")
    inputs: tuple[str, ...] = ()
    outputs: tuple[ast.expr, ...] = ()
    steps: list[Step] = []
    for statement in _flat(call.body):
        match statement:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Name(id="args")):
                inputs = tuple(ast.unparse(name) for name in names)
            case ast.Return(value=ast.Tuple(elts=values)):
                outputs = tuple(values)
            case _:
                steps.extend(_steps(statement, kernels))
    return Program(kernels=kernels, inputs=inputs, steps=tuple(steps), outputs=outputs)


def _kernels(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="async_compile"), attr="triton"),
                args=[ast.Constant(value=str(name)), ast.Constant(value=str(text)), *_],
            ):
                yield name, text
            case _:
                pass


def _flat(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if isinstance(statement, ast.With):
            yield from _flat(statement.body)
        else:
            yield statement


def _steps(statement: ast.stmt, kernels: dict[str, str]) -> Iterator[Step]:
    match statement:
        case ast.Expr(
            value=ast.Call(func=ast.Attribute(value=ast.Name(id=kernel), attr="run"), args=args)
        ) if kernel in kernels:
            yield Launch(kernel, tuple(args))
        case ast.Expr(value=ast.Call(func=function)) if ast.unparse(function) in _SILENT:
            pass
        case ast.Assign(value=ast.Call(func=ast.Name(id="get_raw_stream"))):
            pass
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            yield _assignment(name, value)
        case ast.Delete(targets=targets):
            yield from (Free(ast.unparse(target)) for target in targets)
        case _:
            raise _unknown(statement)


def _assignment(name: str, value: ast.expr) -> Step:
    match value:
        case ast.Name():
            return Rename(name, value)
        case ast.Call(func=ast.Name(id="reinterpret_tensor")):
            return Rename(name, value)
        case ast.Call(func=ast.Name(id="empty_strided_cuda"), args=[size, strides, dtype]):
            return Allocate(
                name,
                tuple(ast.literal_eval(size)),
                tuple(ast.literal_eval(strides)),
                ast.unparse(dtype),
            )
        case _:
            raise _unknown(value)


def _unknown(node: ast.AST) -> LiftRefused:
    """Name the operator of a library call, or show the step that has no meaning here."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call):
            name = ast.unparse(call.func)
            if name.startswith(("extern_kernels.", "torch.ops.", "aten.")):
                operator = name.removeprefix("torch.ops.").removeprefix("extern_kernels.")
                return LiftRefused(
                    f"TorchInductor has no Triton for {operator}: it would call a library"
                )
    return LiftRefused(
        f"TorchInductor's code has a step that cannot be lifted: {ast.unparse(node)[:80]}"
    )
