"""Splits a long reduction over several programs and adds their parts in a second, small kernel.

Unlike atomics, the order of the additions is the same in every run, and no output has to be zero.
"""

import ast

from workbench.kernels.edits.base import Anchor, Edit, EditParameter, EditRefused, Parameter
from workbench.kernels.edits.launching import host_names, host_statement
from workbench.kernels.edits.naming import FreeNames, free_function, spelled
from workbench.kernels.edits.splice import Splice
from workbench.kernels.edits.split import Reduction, reduction
from workbench.kernels.source import LaunchSite, Source
from workbench.kernels.source_kernel import JitKernel

_COLUMNS = 256
"""Outputs that one program of the second kernel adds up."""


def _checked(source: Source, kernel: JitKernel) -> Reduction:
    found = reduction(source, kernel)
    if source.autotuned(kernel):
        raise EditRefused("the kernel is autotuned")
    for launch, grid, _ in found.outputs:
        given = launch.argument(kernel, found.store.base)
        if not isinstance(given, ast.Name) or launch.starred or launch.scope.function is None:
            raise EditRefused(f"line {launch.line}: the output has no name of its own")
        if not isinstance(grid.tuple, ast.Tuple):
            raise EditRefused(f"the grid of line {launch.line} is not written as a tuple")
    return found


def _find(source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    found = _checked(source, kernel)
    return (
        Anchor(
            lines=(found.loop.line, found.store.line),
            says=f"the loop of line {found.loop.line}, added up and stored once",
        ),
    )


def _change(source: Source, kernel: JitKernel, parameters: dict[str, Parameter]) -> str:
    parts = int(parameters["parts"])
    if parts not in {2, 4, 8, 16, 32}:
        raise EditRefused(f"{parts} is not 2, 4, 8, 16 or 32")
    found = _checked(source, kernel)
    splice, names = Splice(source), FreeNames(kernel)
    step, start, store = found.loop.step, found.loop.start, found.store
    if step is None or start is None:
        raise EditRefused("the loop does not step through its dimension in blocks")
    width = splice.text(step) if isinstance(step, ast.Name) else f"({splice.text(step)})"
    program, programs = spelled(source, "tl.program_id"), spelled(source, "tl.num_programs")
    axis, size = found.axis, names.take("part_size")
    splice.replace(start, f"{program}({axis}) * {width}")
    splice.replace(step, f"{programs}({axis}) * {width}")
    part = f"{program}({axis}).to({spelled(source, 'tl.int64')}) * {size}"
    splice.replace(store.pointer, f"{splice.text(store.pointer)} + {part}")
    splice.add_parameter(kernel, size)
    adder = free_function(source, f"add_parts_of_{kernel.name}")
    splice.insert_above(_first_decorator(kernel), *_adder(source, adder))
    for launch, grid, _ in found.outputs:
        given = launch.argument(kernel, store.base)
        if not isinstance(given, ast.Name):
            raise EditRefused(f"line {launch.line}: the output has no name of its own")
        _rewrite_host(splice, launch, given, (adder, size, parts))
        splice.append_item(grid.tuple, str(parts))
    return splice.result()


def _first_decorator(kernel: JitKernel) -> ast.expr:
    return min(kernel.node.decorator_list, key=lambda d: d.lineno)


def _rewrite_host(
    splice: Splice, launch: LaunchSite, given: ast.Name, own: tuple[str, str, int]
) -> None:
    adder, size, parts = own
    out, source = given.id, splice.source
    (held,) = host_names(source, launch, "parts")
    statement = host_statement(launch)
    empty, kind = spelled(source, "torch.empty"), spelled(source, "torch.float32")
    cdiv = spelled(source, "triton.cdiv")
    splice.insert_before(
        statement, f"{held} = {empty}(({parts}, {out}.numel()), dtype={kind}, device={out}.device)"
    )
    splice.replace(given, held)
    splice.set_keyword(launch.call, size, f"{out}.numel()")
    splice.insert_after(
        statement,
        f"{adder}[({cdiv}({out}.numel(), {_COLUMNS}),)](",
        f"    {held}, {out}, {out}.numel(), PARTS={parts}, BLOCK={_COLUMNS}",
        ")",
    )


def _adder(source: Source, name: str) -> list[str]:
    jit, constexpr = spelled(source, "triton.jit"), spelled(source, "tl.constexpr")
    tl = {n: spelled(source, f"tl.{n}") for n in ("program_id", "arange", "load", "sum", "store")}
    return [
        f"@{jit}",
        f"def {name}(parts_ptr, out_ptr, N, PARTS: {constexpr}, BLOCK: {constexpr}):",
        f"    places = {tl['program_id']}(0) * BLOCK + {tl['arange']}(0, BLOCK)[None, :]",
        f"    part = {tl['arange']}(0, PARTS)[:, None]",
        f"    held = {tl['load']}(parts_ptr + part * N + places, mask=places < N, other=0.0)",
        f"    total = {tl['sum']}(held, axis=0, keep_dims=True)",
        f"    {tl['store']}(out_ptr + places, total.to(out_ptr.dtype.element_ty), mask=places < N)",
        "",
        "",
    ]


SPLIT_KERNEL = Edit(
    id="split-kernel",
    says="let several programs share one long sum, and a second kernel add their parts in order",
    parameters=(
        EditParameter(
            name="parts",
            says="programs that share one sum, a power of two",
            kind="int",
            default=4,
            grid=(4, 8, 2, 16),
        ),
    ),
    find=_find,
    change=_change,
)
