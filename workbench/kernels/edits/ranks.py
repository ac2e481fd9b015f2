"""How many dimensions a value in a kernel has: 0 for one number, 1 for a row of a block, 2, ..."""

import ast

from workbench.kernels.source_kernel import JitKernel, argument

_FIXED = {"program_id": 0, "num_programs": 0, "cdiv": 0, "arange": 1, "dot": 2, "trans": 2}
_REDUCTIONS = frozenset({"sum", "max", "min", "argmax", "argmin", "reduce", "xor_sum"})
_SHAPED = frozenset({"zeros", "full"})
_ELEMENTWISE = frozenset(
    {"load", "where", "maximum", "minimum", "exp", "exp2", "log", "log2", "sin", "cos", "sqrt"}
    | {"rsqrt", "erf", "abs", "sigmoid", "fma", "floor", "ceil", "cast", "multiple_of", "tanh"}
    | {"max_contiguous", "clamp", "sqrt_rn", "div_rn", "zeros_like"}
)
_DEPTH = 30


def rank(kernel: JitKernel, node: ast.AST | None) -> int | None:
    """Dimensions of a value; None where it cannot be told."""
    return _rank(kernel, node, frozenset(), 0)


def is_elementwise(op: str) -> bool:
    """Whether an operation gives each element from the elements at the same place."""
    return op in _ELEMENTWISE


def _rank(kernel: JitKernel, node: ast.AST | None, seen: frozenset[str], depth: int) -> int | None:
    if depth > _DEPTH:
        return None
    match node:
        case ast.Constant():
            found: int | None = 0
        case ast.Name(id=name):
            found = _rank_of_name(kernel, name, seen, depth)
        case ast.BinOp(left=a, right=b) | ast.Compare(left=a, comparators=[b]):
            found = _widest(kernel, [a, b], seen, depth)
        case ast.UnaryOp(operand=inner):
            found = _rank(kernel, inner, seen, depth + 1)
        case ast.Call():
            found = _rank_of_call(kernel, node, seen, depth)
        case ast.Subscript(slice=ast.Tuple(elts=parts)):
            found = len(parts)
        case ast.IfExp(body=a, orelse=b):
            found = _widest(kernel, [a, b], seen, depth)
        case _:
            found = None
    return found


def _widest(
    kernel: JitKernel, nodes: list[ast.expr], seen: frozenset[str], depth: int
) -> int | None:
    ranks = [_rank(kernel, node, seen, depth + 1) for node in nodes]
    known = [r for r in ranks if r is not None]
    return max(known, default=0) if len(known) == len(ranks) else None


def _rank_of_name(kernel: JitKernel, name: str, seen: frozenset[str], depth: int) -> int | None:
    if name in seen:
        return 0
    if name in kernel.flow.parameters or any(loop.variable == name for loop in kernel.loops):
        return 0
    found = kernel.flow.definitions.get(name, [])
    if not found or any(d.how not in {"assign", "augment"} for d in found):
        return None
    values = [d.value for d in found if d.value is not None]
    return _widest(kernel, values, seen | {name}, depth)


def _rank_of_call(
    kernel: JitKernel, call: ast.Call, seen: frozenset[str], depth: int
) -> int | None:
    op = kernel.names.op(call)
    if op in _FIXED:
        return _FIXED[op]
    if op in _SHAPED:
        shape = argument(call, 0, "shape")
        found = len(shape.elts) if isinstance(shape, ast.List | ast.Tuple) else None
    elif op in _REDUCTIONS:
        inner = _rank(kernel, argument(call, 0, "input"), seen, depth + 1)
        whole = argument(call, 1, "axis") is None
        found = inner if inner is None else (0 if whole else max(0, inner - 1))
    elif op in _ELEMENTWISE or _is_plain(call):
        found = _widest(kernel, list(call.args), seen, depth)
    elif isinstance(call.func, ast.Attribute) and call.func.attr == "to":
        found = _rank(kernel, call.func.value, seen, depth + 1)
    else:
        found = None
    return found


def _is_plain(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id in {"float", "int", "min", "max", "abs"}
