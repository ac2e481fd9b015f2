"""Exponentials to the base 2, which the hardware computes, with log2(e) in the scale before them.

`exp(s * x)` is `exp2(s * log2(e) * x)`: where one scale is in every exponent, the factor goes into
it once (T. Dao, FlashAttention-2, 2023, section 3.1, keeps the scale out of the softmax likewise).
"""

import ast
import math

from workbench.kernels.edits.base import Anchor, Edit, EditRefused, Parameter
from workbench.kernels.edits.least import filled_with, is_least
from workbench.kernels.edits.naming import FreeNames, spelled
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import Source
from workbench.kernels.source_kernel import JitKernel

LOG2_E = math.log2(math.e)


def _scale(kernel: JitKernel) -> tuple[str, list[ast.Name]]:
    """The parameter that scales every exponent, and where it is read.

    Raises EditRefused where an exponent has a part that it does not scale.
    """
    if kernel.calls("exp2") or not kernel.calls("exp"):
        raise EditRefused("there are no exponentials, or some are to the base 2 already")
    for parameter in kernel.parameters:
        reads = kernel.reads(parameter.name)
        if parameter.constexpr or not reads or not all(_scales(kernel, node) for node in reads):
            continue
        scaled = _scaled(kernel, parameter.name)
        if all(_terms_scaled(call.args[0], parameter.name, scaled) for call in kernel.calls("exp")):
            return parameter.name, reads
    raise EditRefused("no parameter scales every term of every exponent")


def _scales(kernel: JitKernel, node: ast.Name) -> bool:
    """Whether a read is a factor of a product."""
    holder = kernel.parents[node]
    return isinstance(holder, ast.BinOp) and isinstance(holder.op, ast.Mult)


def _scaled(kernel: JitKernel, scale: str) -> frozenset[str]:
    """Names whose every value is scaled, or the least there is, or comes from such names alone."""
    found: set[str] = set()
    grown = True
    while grown:
        grown = False
        for name, definitions in kernel.flow.definitions.items():
            if name in found or name in kernel.flow.parameters:
                continue
            values = [d.value for d in definitions if d.how == "assign"]
            others = len(values) < len(definitions)
            # A running maximum starts at minus infinity and is raised by what it is made of.
            own = frozenset({*found, name, *_heirs(kernel, name)})
            if others or not values or scale not in kernel.flow.closure(name):
                continue
            if all(
                _is_scaled(kernel, v, scale, own) or is_least(filled_with(kernel, v))
                for v in values
            ):
                found.add(name)
                grown = True
    return frozenset(found)


def _heirs(kernel: JitKernel, name: str) -> set[str]:
    """Names that are given to a name as they are: the new value of a running maximum."""
    return {
        d.value.id
        for d in kernel.flow.definitions.get(name, [])
        if d.how == "assign" and isinstance(d.value, ast.Name)
    }


def _is_scaled(
    kernel: JitKernel, node: ast.expr | None, scale: str, scaled: frozenset[str]
) -> bool:
    match node:
        case ast.Name(id=name):
            return name in scaled
        case ast.Subscript(value=inner):
            return _is_scaled(kernel, inner, scale, scaled)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return any(isinstance(n, ast.Name) and n.id == scale for n in (left, right))
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            sides = (left, right)
            return all(_is_scaled(kernel, side, scale, scaled) for side in sides)
        case ast.Call(args=[first, *rest]) if kernel.names.op(node) in {"maximum", "max", "where"}:
            parts = rest if kernel.names.op(node) == "where" else [first, *rest]
            kept = [p for p in parts if not isinstance(p, ast.Constant) and not is_least(p)]
            return bool(kept) and all(_is_scaled(kernel, p, scale, scaled) for p in kept)
        case _:
            return False


def _terms_scaled(node: ast.expr, scale: str, scaled: frozenset[str]) -> bool:
    """Whether every term of a sum is scaled."""
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            sides = (left, right)
            return all(_terms_scaled(side, scale, scaled) for side in sides)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return any(isinstance(n, ast.Name) and n.id == scale for n in (left, right))
        case ast.Subscript(value=inner):
            return _terms_scaled(inner, scale, scaled)
        case ast.Name(id=name):
            return name in scaled
        case _:
            return False


def _find(_source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
    scale, reads = _scale(kernel)
    lines = sorted({n.lineno for n in (*reads, *kernel.calls("exp"))})
    return (Anchor(lines=tuple(lines), says=f"exponentials of what `{scale}` scales"),)


def _change(source: Source, kernel: JitKernel, _parameters: dict[str, Parameter]) -> str:
    scale, reads = _scale(kernel)
    splice, name = Splice(source), FreeNames(kernel).take("to_base_2")
    first = min(reads, key=lambda n: (n.lineno, n.col_offset))
    splice.insert_before(_outermost(kernel, first), f"{name} = {scale} * {LOG2_E:.9g}")
    for node in reads:
        splice.replace(node, name)
    for call in kernel.calls("exp"):
        splice.replace(call.func, spelled(source, "tl.exp2"))
    return splice.result()


def _outermost(kernel: JitKernel, node: ast.AST) -> ast.stmt:
    """The statement of the kernel's own body that holds a node."""
    return next(s for s in kernel.node.body if any(n is node for n in ast.walk(s)))


def to_base_e(source: Source, kernel: JitKernel) -> tuple[str, tuple[int, ...]]:
    """The text with exponentials to the base e, and the lines that had others.

    Raises EditRefused where no name is a parameter times log2(e), or some exponential is to the
    base e already.
    """
    powers = kernel.calls("exp2")
    if not powers or kernel.calls("exp"):
        raise EditRefused("there are no exponentials to the base 2, or others too")
    made, name, scale = _factor(kernel)
    splice = Splice(source)
    for statement in made:
        splice.remove(statement)
    gone = {id(n) for statement in made for n in ast.walk(statement)}
    for node in kernel.reads(name):
        if id(node) not in gone:
            splice.replace(node, scale)
    for call in powers:
        splice.replace(call.func, spelled(source, "tl.exp"))
    lines = {*(statement.lineno for statement in made), *(c.lineno for c in powers)}
    return splice.result(), tuple(sorted(lines))


def _factor(kernel: JitKernel) -> tuple[list[ast.stmt], str, str]:
    """What makes a scale one of the base 2: the statements, the name that holds it and the
    parameter, which may be one name.

    Written `name = scale * log2(e)`, `scale *= log2(e)`, or `name = scale` and then `name *=
    log2(e)`, as in the tutorials of Triton.
    """
    for statement in kernel.node.body:
        name, scale = _multiplied(statement)
        defined = [
            d.statement for d in kernel.flow.definitions.get(name, []) if d.value is not None
        ]
        if not scale or statement not in defined:
            continue
        others = [one for one in defined if one is not statement]
        if name == scale in kernel.flow.parameters and not others:
            return [statement], name, scale
        if name == scale and len(others) == 1:
            match others[0]:
                case ast.Assign(targets=[ast.Name()], value=ast.Name(id=scale)):
                    pass
                case _:
                    continue
        elif others:
            continue
        if scale in kernel.flow.parameters and len(kernel.reads(scale)) == 1:
            return [*others, statement], name, scale
    raise EditRefused("no name is a parameter times log2(e)")


def _multiplied(statement: ast.stmt) -> tuple[str, str]:
    """The name that a statement makes of another, or of itself, times log2(e); else empty."""
    match statement:
        case ast.Assign(
            targets=[ast.Name(id=name)], value=ast.BinOp(left=left, op=ast.Mult(), right=right)
        ):
            for one, other in ((left, right), (right, left)):
                if isinstance(one, ast.Name) and _is_log2_e(other):
                    return name, one.id
        case ast.AugAssign(target=ast.Name(id=name), op=ast.Mult(), value=value) if _is_log2_e(
            value
        ):
            return name, name
        case _:
            pass
    return "", ""


def _is_log2_e(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=float(factor)):
            return math.isclose(factor, LOG2_E, rel_tol=1e-6)
        case _:
            return False


BASE_TWO = Edit(
    id="base-two",
    says="take exponentials to the base 2, with log2(e) in the scale of their arguments",
    find=_find,
    change=_change,
)
