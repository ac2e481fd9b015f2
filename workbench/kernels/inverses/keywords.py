"""Mechanisms that are a keyword of a load, a store or a loop: taken out by dropping the keyword."""

import ast
from collections.abc import Callable

from workbench.kernels.edits.base import Edit, EditRefused, Parameters
from workbench.kernels.edits.loops import (
    LOOP_FLATTEN,
    LOOP_STAGES,
    LOOP_UNROLL,
    STATIC_LOOPS,
    WARP_SPECIALIZE,
)
from workbench.kernels.edits.policies import CACHE_MODIFIER, EVICTION, groups
from workbench.kernels.edits.sites import option_sites
from workbench.kernels.edits.splice import Splice
from workbench.kernels.inverses.base import Inverse, Removable, puts_back
from workbench.kernels.source import Source
from workbench.kernels.source_kernel import JitKernel, keyword_argument


def _policy(edit: Edit, keyword: str, category: str, says: str) -> Inverse:
    def find(source: Source, kernel: JitKernel) -> tuple[Removable, ...]:
        found = []
        for name, accesses in groups(kernel).items():
            calls = [a.call for a in accesses if a.option(keyword) is not None]
            policy = _first_text([a.option(keyword) for a in accesses])
            if not calls or policy is None:
                continue
            splice = Splice(source)
            for call in calls:
                splice.drop_keyword(call, keyword)
            found.append(
                Removable(
                    lines=tuple(sorted({c.lineno for c in calls})),
                    locus=name,
                    says=f"{keyword} of {name}",
                    source=splice.result(),
                    parameters={"accesses": name, "policy": policy},
                )
            )
        return tuple(found)

    return Inverse(category=category, edit=edit.id, says=says, find=find)


def _first_text(options: list[ast.expr | None]) -> str | None:
    """What the first access says: a group's later ones may let go what it keeps."""
    match options[0]:
        case ast.Constant(value=str(value)):
            return value
        case _:
            return None


_Naive = Callable[[Source, JitKernel, list[str]], str]
"""What a loop says instead of its option, whose values are given; empty to say nothing.

Raises EditRefused where they mean doing without already."""


def _nothing(_source: Source, _kernel: JitKernel, _values: list[str]) -> str:
    return ""


def _one_stage(source: Source, kernel: JitKernel, values: list[str]) -> str:
    """A loop with products that says nothing has the launch's stages."""
    if set(values) == {"1"}:
        raise EditRefused("the loops have one stage already")
    given = option_sites(source, kernel, "num_stages")
    plain = not given.absent and not given.computed and set(given.values) == {1}
    return "" if plain or not kernel.dots else "1"


def _loop_option(
    edit: Edit,
    option: str,
    category: str,
    says: str,
    parameter: str,
    naive: _Naive = _nothing,
) -> Inverse:
    def find(source: Source, kernel: JitKernel) -> tuple[Removable, ...]:
        having = [
            (loop, call, value)
            for loop in kernel.loops
            if (call := _range_call(loop.node)) is not None
            and (value := keyword_argument(call, option)) is not None
        ]
        stated = {ast.dump(value) for _, _, value in having}
        if len(stated) != 1:
            # Loops that differ in it are not made by one step forward.
            raise EditRefused(f"no loop, or loops of different `{option}`")
        splice = Splice(source)
        instead = naive(source, kernel, [splice.text(value) for _, _, value in having])
        for _, call, value in having:
            if instead:
                splice.replace(value, instead)
            else:
                splice.drop_keyword(call, option)
        return (
            Removable(
                lines=tuple(loop.line for loop, _, _ in having),
                locus="loop",
                says=f"{option} of {len(having)} loops",
                source=splice.result(),
                parameters=_forward(having[0][2], parameter),
            ),
        )

    return Inverse(category=category, edit=edit.id, says=says, find=find)


def _forward(value: ast.expr, parameter: str) -> Parameters:
    if not parameter:
        return {}
    match value:
        case ast.Constant(value=int(number)):
            return {parameter: number}
        case _:
            raise EditRefused("the option is computed")


def _range_call(node: ast.stmt) -> ast.Call | None:
    match node:
        case ast.For(iter=ast.Call() as call):
            return call
        case _:
            return None


def _unrolled_at_compile_time(source: Source, kernel: JitKernel) -> tuple[Removable, ...]:
    splice = Splice(source)
    found = [loop for loop in kernel.loops if loop.kind == "static_range"]
    for loop in found:
        call = _range_call(loop.node)
        if call is not None:
            splice.replace(call.func, "range")
    if not found:
        raise EditRefused("no loop is unrolled at compile time")
    without = splice.result()
    if not puts_back(STATIC_LOOPS, without, kernel.name, {}):
        raise EditRefused("a loop's bounds are not known from the signature alone")
    return (
        Removable(
            lines=tuple(loop.line for loop in found),
            locus="loop",
            says=f"{len(found)} loops unrolled at compile time",
            source=without,
        ),
    )


EVICTION_PRIORITY = _policy(
    EVICTION, "eviction_policy", "eviction-priority", "loads and stores without eviction priorities"
)
CACHE_LEVEL = _policy(
    CACHE_MODIFIER, "cache_modifier", "cache-level", "loads and stores through every cache level"
)
LOOP_PIPELINE = _loop_option(
    LOOP_STAGES,
    "num_stages",
    "loop-pipeline",
    "a loop without stages of its own",
    "value",
    _one_stage,
)
UNROLLED = _loop_option(
    LOOP_UNROLL, "loop_unroll_factor", "loop-unroll", "a loop that is not unrolled", "value"
)
FLATTENED = _loop_option(
    LOOP_FLATTEN, "flatten", "loop-flatten", "an inner loop whose pipeline drains every tile", ""
)
SPECIALIZED = _loop_option(
    WARP_SPECIALIZE, "warp_specialize", "warp-specialized", "warps that all load and multiply", ""
)
STATICALLY_UNROLLED = Inverse(
    category="static-loops",
    edit=STATIC_LOOPS.id,
    says="loops of constant bounds that stay loops",
    find=_unrolled_at_compile_time,
)
