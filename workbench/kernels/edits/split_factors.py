"""Splits the fp32 factors of a matrix product once into halves, which three products multiply.

Two parts of fp16 keep 22 bits of a factor. The low part is kept 2 ** 11 times as large as it is,
and its products are added up apart from those of the high parts; that of two low parts is below
what fp32 sums lose (H. Ootomo and R. Yokota, Recovering single precision accuracy from Tensor Cores
while surpassing the FP32 theoretical peak performance, 2022). Because fp16 has no range, every row
is scaled by a power of two first (ours): a factor below 2 ** -29 of its row's largest keeps fewer
bits. Triton's `tf32x3` splits a tile anew in every program that loads it, on its way to the tensor
cores; here a kernel of its own splits a row once.
"""

import ast

from workbench.kernels.edits.base import Anchor, Edit, EditParameter, EditRefused, Parameter
from workbench.kernels.edits.factors import Product, product
from workbench.kernels.edits.launch_options import with_warps
from workbench.kernels.edits.launching import host_names, host_statement
from workbench.kernels.edits.naming import FreeNames, free_function, spelled
from workbench.kernels.edits.splice import Splice
from workbench.kernels.edits.tile import TILE
from workbench.kernels.source import LaunchSite, Source
from workbench.kernels.source_kernel import JitKernel

_BLOCK = 4096
"""Elements of a row that the splitting kernel holds at once (ours)."""
_UP = 2048
"""How much larger than it is a low part is kept: by the bits that fp16 has."""


def _find(source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    found = product(source, kernel)
    first, second = (f.base.id for f in found.factors)
    return (
        Anchor(
            lines=(found.loop.line, found.dot.lineno),
            says=f"rows of `{first}` and `{second}`, multiplied along `{found.length}`",
        ),
    )


def _change(source: Source, kernel: JitKernel, parameters: dict[str, Parameter]) -> str:
    found = product(source, kernel)
    splice, names = Splice(source), FreeNames(kernel)
    splitter = free_function(source, f"split_rows_for_{kernel.name}")
    added, lows, scaling = list[tuple[str, str]](), list[str](), list[str]()
    load, constexpr = spelled(source, "tl.load"), spelled(source, "tl.constexpr")
    for factor in found.factors:
        stem = factor.base.id.removesuffix("_ptr")
        low, scale = names.take(f"{stem}_low_ptr"), names.take(f"{stem}_scale_ptr")
        held = names.take(f"{factor.used.id}_low")
        again = splice.text_with(factor.load.call, {factor.base: low})
        splice.insert_after(factor.made, f"{held} = {again}")
        lows.append(splice.text_with(factor.operand, {factor.used: held}))
        mask = f", mask={factor.rows} < {factor.within}, other=0.0" if factor.within else ""
        scales = f"{load}({scale} + {factor.rows}{mask}){factor.along}"
        scaling.append(f"{found.total} = {found.total} * {scales}")
        added.append((low, scale))
        splice.add_parameter(kernel, low)
        splice.add_parameter(kernel, scale)
    a, b = (splice.text(f.operand) for f in found.factors)
    dot = splice.text(found.dot.func)
    total, small = found.total, names.take(f"{found.total}_low")
    splice.insert_after(found.start, f"{small} = {splice.text(found.zeros)}")
    splice.replace_statement(
        found.statement,
        f"{small} = {dot}({a}, {lows[1]}, {small})",
        f"{small} = {dot}({lows[0]}, {b}, {small})",
        f"{total} = {dot}({a}, {b}, {total})",
    )
    splice.insert_after(found.loop.node, f"{total} = {total} + {small} / {_UP}", *scaling)
    first = min(kernel.node.decorator_list, key=lambda d: d.lineno)
    splice.insert_above(first, *_splitter(source, splitter, constexpr))
    for launch in source.launches_of(kernel.name):
        _rewrite_host(splice, kernel, launch, found, added, splitter)
    tile = {name: parameters[name] for name in ("tile", "num_warps", "num_stages")}
    edited = splice.result()
    return TILE.apply(edited, kernel.name, tile).source if tile["tile"] else edited


def _rewrite_host(
    splice: Splice,
    kernel: JitKernel,
    launch: LaunchSite,
    found: Product,
    added: list[tuple[str, str]],
    splitter: str,
) -> None:
    source, statement = splice.source, host_statement(launch)
    empty, power = spelled(source, "torch.empty"), spelled(source, "triton.next_power_of_2")
    half, single = spelled(source, "torch.float16"), spelled(source, "torch.float32")
    length = launch.argument(kernel, found.length)
    given = [launch.argument(kernel, f.base.id) for f in found.factors]
    taken = [g.id for g in given if isinstance(g, ast.Name)]
    stems = [f"{name}_{part}" for name in taken for part in ("high", "low", "scale")]
    parts = host_names(source, launch, *stems)
    if length is None or len(taken) != len(given):
        raise EditRefused(f"line {launch.line}: the factors have no names of their own")
    k = splice.text(length)
    # Half a row at most: its loops go round wherever they are compared, however short rows are.
    block = f"BLOCK=min({_BLOCK}, max(1, {power}({k}) // 2))"
    lines = []
    for i, name in enumerate(taken):
        high, low, scale = parts[3 * i : 3 * i + 3]
        lines += [
            f"{high} = {empty}({name}.numel(), dtype={half}, device={name}.device)",
            f"{low} = {empty}({name}.numel(), dtype={half}, device={name}.device)",
            f"{scale} = {empty}({name}.numel() // ({k}), dtype={single}, device={name}.device)",
            f"{splitter}[({name}.numel() // ({k}),)](",
            f"    {name}, {high}, {low}, {scale}, {k}, {block}, num_warps=8",
            ")",
        ]
        value = given[i]
        if value is not None:
            splice.replace(value, high)
        splice.set_keyword(launch.call, added[i][0], low)
        splice.set_keyword(launch.call, added[i][1], scale)
    splice.insert_before(statement, *lines)


def _splitter(source: Source, name: str, constexpr: str) -> list[str]:
    jit = spelled(source, "triton.jit")
    ops = ("program_id", "zeros", "arange", "load", "store", "max", "maximum", "minimum", "abs")
    tl = {op: spelled(source, f"tl.{op}") for op in ops}
    i32, i64, f16, f32 = (
        spelled(source, f"tl.{kind}") for kind in ("int32", "int64", "float16", "float32")
    )
    places = f"cols = start + {tl['arange']}(0, BLOCK)"
    x = f"{tl['load']}(x_ptr + row * N + cols, mask=cols < N, other=0.0).to({f32})"
    return [
        f"@{jit}",
        f"def {name}(x_ptr, high_ptr, low_ptr, scale_ptr, N, BLOCK: {constexpr}):",
        f"    row = {tl['program_id']}(0).to({i64})",
        f"    largest = {tl['zeros']}([BLOCK], dtype={f32})",
        "    for start in range(0, N, BLOCK):",
        f"        {places}",
        f"        largest = {tl['maximum']}(largest, {tl['abs']}({x}))",
        "    # A power of two takes the row's largest to 2 ** 14 and more, below fp16's largest.",
        f"    exponent = ({tl['max']}(largest, axis=0).to({i32}, bitcast=True) >> 23) - 127",
        f"    exponent = {tl['minimum']}({tl['maximum']}(exponent, -111), 127)",
        f"    up = ((141 - exponent) << 23).to({f32}, bitcast=True)",
        f"    {tl['store']}(scale_ptr + row, ((113 + exponent) << 23).to({f32}, bitcast=True))",
        "    for start in range(0, N, BLOCK):",
        f"        {places}",
        f"        x = {x} * up",
        f"        high = x.to({f16})",
        f"        low = ((x - high.to({f32})) * {_UP}).to({f16})",
        f"        {tl['store']}(high_ptr + row * N + cols, high, mask=cols < N)",
        f"        {tl['store']}(low_ptr + row * N + cols, low, mask=cols < N)",
        "",
        "",
    ]


SPLIT_FACTORS = Edit(
    id="split-factors",
    says="split fp32 factors once into two scaled halves each, and add three products of them",
    parameters=(
        EditParameter(
            name="tile",
            says="block sizes in the order of the signature, joined by x; empty leaves them",
            kind="text",
            default="",
            grid=("128x128x64", "128x128x32"),
        ),
        with_warps(8),
        EditParameter(
            name="num_stages",
            says="pipeline stages; 0 leaves them as they are",
            kind="int",
            default=0,
            grid=(3, 4),
        ),
    ),
    find=_find,
    change=_change,
)
