"""The launch grid as text: its extents, and what a kernel can compute of them itself."""

import ast
from dataclasses import dataclass

from workbench.kernels.edits.base import EditRefused
from workbench.kernels.edits.naming import spelled
from workbench.kernels.edits.sites import literal
from workbench.kernels.source import LaunchSite, Source
from workbench.kernels.source_flow import reads_of
from workbench.kernels.source_kernel import JitKernel


@dataclass(frozen=True, eq=False)
class Grid:
    """A grid whose extents are written out in one tuple."""

    tuple: ast.Tuple
    meta: str
    """The name that the grid function gives to the launch's values; empty for a plain tuple."""

    @property
    def extents(self) -> list[ast.expr]:
        """One expression an axis."""
        return self.tuple.elts


def grid_of(source: Source, launch: LaunchSite) -> Grid:
    """The grid of a launch: a tuple, a lambda or function that returns one, or a name of these.

    Raises EditRefused when it is built in another way, or when another launch uses it too.
    """
    node: ast.expr = launch.grid
    if isinstance(node, ast.Name):
        _check_alone(launch, node.id)
        flow = source.host_flow(launch.scope)
        behind = None if flow is None else flow.single(node.id)
        if behind is None:
            return _of_function(source, launch, node.id)
        node = behind
    match node:
        case ast.Tuple():
            return Grid(node, "")
        case ast.Lambda(args=ast.arguments(args=[ast.arg(arg=meta)]), body=ast.Tuple() as body):
            return Grid(body, meta)
        case _:
            raise EditRefused(f"the grid of line {launch.line} is not written as a tuple")


def _of_function(source: Source, launch: LaunchSite, name: str) -> Grid:
    function = source.host_function(name)
    match function:
        case ast.FunctionDef(
            args=ast.arguments(args=[ast.arg(arg=meta)]), body=[ast.Return(value=ast.Tuple() as t)]
        ):
            return Grid(t, meta)
        case _:
            raise EditRefused(f"the grid of line {launch.line} is not written as a tuple")


def _check_alone(launch: LaunchSite, name: str) -> None:
    function = launch.scope.function
    reads = reads_of(name, function if function is not None else launch.call)
    if len(reads) != 1:
        raise EditRefused(f"`{name}` is read {len(reads)} times, not only as this grid")


def in_kernel(
    source: Source, kernel: JitKernel, launch: LaunchSite, grid: Grid, node: ast.expr
) -> str:
    """A grid extent as the kernel can compute it from its own parameters.

    Raises EditRefused when it depends on something that the kernel is not given.
    """
    by_text = {
        ast.dump(given): p.name
        for p in kernel.parameters
        if (given := launch.argument(kernel, p.name)) is not None and literal(given) is None
    }
    return _translated(source, kernel, grid, node, by_text)


def _translated(
    source: Source, kernel: JitKernel, grid: Grid, node: ast.expr, by_text: dict[str, str]
) -> str:
    known = by_text.get(ast.dump(node))
    if known is not None:
        return known
    match node:
        case ast.Subscript(value=ast.Name(id=holder), slice=ast.Constant(value=str(name))) if (
            holder == grid.meta and name in kernel.flow.parameters
        ):
            return name
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            sides = [_translated(source, kernel, grid, n, by_text) for n in (left, right)]
            return f"({sides[0]} {_OPERATORS[type(op)]} {sides[1]})"
        case ast.Call(args=[a, b], keywords=[]) if source.names.dotted(node.func) in _CDIV:
            sides = [_translated(source, kernel, grid, n, by_text) for n in (a, b)]
            return f"{spelled(source, 'tl.cdiv')}({sides[0]}, {sides[1]})"
        case ast.Constant(value=int(value)) if not isinstance(value, bool) and value in {1, 2}:
            return str(value)
        case _:
            raise EditRefused(f"the kernel is not given `{ast.unparse(node)}` of its grid")


_OPERATORS: dict[type[ast.operator], str] = {
    ast.Mult: "*",
    ast.Add: "+",
    ast.Sub: "-",
    ast.FloorDiv: "//",
}
_CDIV = frozenset({"triton.cdiv", "tl.cdiv"})
