"""Hands the choice of warps and stages to Triton's autotuner, or takes it back from it."""

import ast

from workbench.kernels.edits.base import Anchor, Edit, EditParameter, EditRefused, Parameter
from workbench.kernels.edits.naming import spelled
from workbench.kernels.edits.sites import literal, option_sites
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import Config, Source
from workbench.kernels.source_kernel import JitKernel, keyword_argument

_WARPS = (4, 8)


def _keys(kernel: JitKernel) -> list[str]:
    """Plain parameters that bound masks and loops: another value may want another configuration."""
    plain = {p.name for p in kernel.parameters if not p.constexpr}
    bounds = {b[0] for _, c in kernel.masks() if (b := kernel.bound(c)) is not None}
    walked = {loop.stop.id for loop in kernel.loops if isinstance(loop.stop, ast.Name)}
    return sorted((bounds | walked) & plain)


def _find_add(source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    if source.autotuned(kernel):
        raise EditRefused("the kernel is autotuned already")
    if any(a.kind == "atomic" for a in kernel.accesses):
        raise EditRefused("trials of the autotuner would add to the output")
    if any(keyword_argument(c, "warp_specialize") for c in kernel.calls("range")):
        raise EditRefused("split warps compile with some options only")
    for option in ("num_warps", "num_stages"):
        given = option_sites(source, kernel, option)
        if given.computed:
            raise EditRefused(f"`{option}` is computed, not written out")
    if any(launch.keyword("num_ctas") for launch in source.launches_of(kernel.name)):
        raise EditRefused("a launch states `num_ctas`, and so would every configuration")
    return (Anchor(lines=(kernel.line,), says="warps and stages that launches state"),)


def _change_add(source: Source, kernel: JitKernel, parameters: dict[str, Parameter]) -> str:
    _find_add(source, kernel)
    deepest = int(parameters["stages"])
    if not 2 <= deepest <= 6:
        raise EditRefused(f"{deepest} stages are not from 2 to 6")
    splice = Splice(source)
    for option in ("num_warps", "num_stages"):
        for launch in source.launches_of(kernel.name):
            splice.drop_keyword(launch.call, option)
    config, tune = spelled(source, "triton.Config"), spelled(source, "triton.autotune")
    stages = sorted({2, deepest})
    lines = [
        f"        {config}({{}}, num_warps={w}, num_stages={s})," for w in _WARPS for s in stages
    ]
    keys = ", ".join(f'"{name}"' for name in _keys(kernel))
    # Above the heuristics, which may need what a configuration sets.
    first = min(kernel.node.decorator_list, key=lambda d: d.lineno)
    splice.insert_above(
        first, f"@{tune}(", "    configs=[", *lines, "    ],", f"    key=[{keys}],", ")"
    )
    return splice.result()


def _configs(source: Source, kernel: JitKernel) -> tuple[Config, ...]:
    found = source.configs(kernel)
    if not source.autotuned(kernel) or not found:
        raise EditRefused("no autotuner's configurations are spelled out")
    for config in found:
        if any(literal(v) is None for v in (*config.values.values(), *config.options.values())):
            raise EditRefused("a configuration holds what is not written out")
        if set(config.options) - {"num_warps", "num_stages", "num_ctas", "maxnreg"}:
            raise EditRefused("a configuration does more than set options")
    return found


def _find_pick(source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    found = _configs(source, kernel)
    for launch in source.launches_of(kernel.name):
        if launch.starred:
            raise EditRefused(f"line {launch.line} hides its arguments behind a star")
    lines = tuple(sorted({c.call.lineno for c in found}))
    return (Anchor(lines=lines, says=f"{len(found)} configurations"),)


def _change_pick(source: Source, kernel: JitKernel, parameters: dict[str, Parameter]) -> str:
    _find_pick(source, kernel)
    found, place = _configs(source, kernel), int(parameters["config"])
    if not 0 <= place < len(found):
        raise EditRefused(f"there is no configuration {place}; there are {len(found)}")
    splice = Splice(source)
    tune = next(
        d
        for d in kernel.node.decorator_list
        if isinstance(d, ast.Call) and source.names.dotted(d.func) == "triton.autotune"
    )
    splice.remove_decorator(tune)
    for launch in source.launches_of(kernel.name):
        for name, value in (*found[place].values.items(), *found[place].options.items()):
            splice.set_keyword(launch.call, name, splice.text(value))
    return splice.result()


AUTOTUNE = Edit(
    id="autotune",
    says="let the autotuner choose warps and stages for each shape",
    parameters=(
        EditParameter(
            name="stages", says="most stages that it tries", kind="int", default=4, grid=(4, 3)
        ),
    ),
    find=_find_add,
    change=_change_add,
)
PICK_CONFIG = Edit(
    id="pick-config",
    says="keep one of an autotuner's configurations and take the autotuner out",
    parameters=(
        EditParameter(
            name="config", says="its place, from 0", kind="int", default=0, grid=(0, 1, 2, 3)
        ),
    ),
    find=_find_pick,
    change=_change_pick,
)
