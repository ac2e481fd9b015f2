"""Follows names through one function's assignments: values, dependencies, arithmetic."""

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from workbench.kernels.source_names import Names

Number = int | float
_DEPTH = 40
"""Most names that a value is followed through: deeper than any kernel, and safe to recurse."""


@dataclass(frozen=True, eq=False)
class Definition:
    """One place where a name is bound inside a function."""

    name: str
    how: Literal["assign", "augment", "loop", "unpack", "other"]
    value: ast.expr | None
    """What it is bound to; the increment for `augment`, the iterable for `loop`."""
    statement: ast.stmt


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements of a body in textual order, nested ones too, but not those of functions."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for field in ("body", "orelse", "finalbody"):
            yield from statements(getattr(statement, field, []))
        for handler in getattr(statement, "handlers", []):
            yield from statements(handler.body)


def is_bare_constant(statement: ast.stmt) -> bool:
    """Whether a statement is a constant by itself: a docstring, a text, `...`."""
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def names_in(node: ast.AST | None) -> frozenset[str]:
    """Names that occur in an expression, without following them."""
    if node is None:
        return frozenset()
    return frozenset(n.id for n in ast.walk(node) if isinstance(n, ast.Name))


def reads_of(name: str, root: ast.AST) -> list[ast.Name]:
    """Every place within a node where a name is read."""
    return [
        node
        for node in ast.walk(root)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
    ]


def unspread(node: ast.expr) -> ast.expr:
    """An expression without the subscripts behind it, as in `rows[:, None]`."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node


def spread(node: ast.AST, axis: int) -> str:
    """The name in `name[:, None]` (axis 0) or `name[None, :]` (axis 1); empty for other forms."""
    match node:
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Tuple(elts=[a, b])):
            kept, none = (a, b) if axis == 0 else (b, a)
            whole = isinstance(kept, ast.Slice) and not (kept.lower or kept.upper or kept.step)
            return name if whole and isinstance(none, ast.Constant) and none.value is None else ""
        case _:
            return ""


def same(left: ast.AST | None, right: ast.AST | None) -> bool:
    """Whether two expressions have the same text, ignoring layout."""
    if left is None or right is None:
        return left is right
    return ast.dump(left) == ast.dump(right)


def conjuncts(mask: ast.expr | None) -> tuple[ast.expr, ...]:
    """The parts of `a & b & c`; empty for no mask. Looks through `None if FLAG else a & b`."""
    match mask:
        case None | ast.Constant(value=None):
            return ()
        case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
            return conjuncts(left) + conjuncts(right)
        case ast.IfExp(body=ast.Constant(value=None), orelse=kept):
            return conjuncts(kept)
        case _:
            return (mask,)


def stored_names(target: ast.AST) -> Iterator[str]:
    """Names that an assignment target, or a whole statement, binds."""
    for node in ast.walk(target):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _defined(statement: ast.stmt) -> Iterator[Definition]:
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            yield Definition(name, "assign", value, statement)
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            yield Definition(name, "assign", value, statement)
        case ast.AugAssign(target=ast.Name(id=name), value=value):
            yield Definition(name, "augment", value, statement)
        case ast.Assign(targets=targets, value=value):
            names = [name for target in targets for name in stored_names(target)]
            yield from (Definition(name, "unpack", value, statement) for name in names)
        case ast.For(target=target, iter=iterable):
            names = list(stored_names(target))
            yield from (Definition(name, "loop", iterable, statement) for name in names)
        case ast.With(items=items):
            bound = [item.optional_vars for item in items if item.optional_vars is not None]
            names = [name for target in bound for name in stored_names(target)]
            yield from (Definition(name, "other", None, statement) for name in names)
        case _:
            return


class Flow:
    """The bindings of one function, read from its text."""

    def __init__(self, function: ast.FunctionDef | ast.AsyncFunctionDef, names: Names) -> None:
        self.names = names
        arguments = function.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        self.parameters = tuple(a.arg for a in every)
        self.body = function.body
        self.definitions: dict[str, list[Definition]] = {}
        self._closures: dict[str, frozenset[str]] = {}
        self._read: dict[str, frozenset[str]] = {}
        self._known: dict[str, ast.expr | None] = {}
        self._ranges: dict[str, dict[str, ast.expr]] = {}
        for statement in statements(function.body):
            for definition in _defined(statement):
                self.definitions.setdefault(definition.name, []).append(definition)

    def single(self, name: str) -> ast.expr | None:
        """The expression that a name is bound to if it is bound once, by plain assignment."""
        found = self.definitions.get(name, [])
        if len(found) == 1 and found[0].how == "assign" and name not in self.parameters:
            return found[0].value
        return None

    def known(self, name: str) -> ast.expr | None:
        """As `single`, but the name may be bound several times to the same text."""
        if name not in self._known:
            self._known[name] = self._always(name)
        return self._known[name]

    def _always(self, name: str) -> ast.expr | None:
        found = self.definitions.get(name, [])
        if not found or name in self.parameters or any(d.how != "assign" for d in found):
            return None
        first = found[0].value
        return first if all(same(d.value, first) for d in found[1:]) else None

    def reaches(self, node: ast.AST | None) -> frozenset[str]:
        """All names that an expression depends on, followed through assignments of any kind."""
        direct = names_in(node)
        return direct.union(*(self.closure(name) for name in direct))

    def closure(self, name: str) -> frozenset[str]:
        """All names that a name depends on, including itself."""
        if name not in self._closures:
            seen: set[str] = set()
            ahead = [name]
            while ahead:
                current = ahead.pop()
                if current not in seen:
                    seen.add(current)
                    ahead.extend(self._reads(current) - seen)
            self._closures[name] = frozenset(seen)
        return self._closures[name]

    def _reads(self, name: str) -> frozenset[str]:
        """Names that the bindings of a name read, without following them."""
        if name not in self._read:
            bound = self.definitions.get(name, [])
            self._read[name] = frozenset().union(*(names_in(d.value) for d in bound))
        return self._read[name]

    def assigned_in(self, body: list[ast.stmt]) -> frozenset[str]:
        """Names that some statement of a body binds."""
        return frozenset(d.name for s in statements(body) for d in _defined(s))

    def resolve(self, node: ast.expr | None) -> ast.expr | None:
        """Follow a chain of names, each with one known expression, to its last expression."""
        for _ in range(_DEPTH):
            if not isinstance(node, ast.Name):
                return node
            behind = self.known(node.id)
            if behind is None:
                return node
            node = behind
        return node

    def arange(self, node: ast.AST | None) -> ast.expr | None:
        """The extent X of `tl.arange(0, X)`; None for any other expression."""
        match node:
            case ast.Call(args=[ast.Constant(value=0), extent]) if self.names.op(node) == "arange":
                return extent
            case _:
                return None

    def aranges(self, node: ast.AST | None) -> tuple[ast.expr, ...]:
        """Extents of every `tl.arange` that an expression depends on, each once."""
        found = {} if node is None else self._extents_in(node)
        for name in sorted(self.reaches(node)):
            for text, extent in self._extents(name).items():
                found.setdefault(text, extent)
        return tuple(found.values())

    def _extents(self, name: str) -> dict[str, ast.expr]:
        """Extents of the `tl.arange` in the bindings of a name, by their text."""
        if name not in self._ranges:
            found: dict[str, ast.expr] = {}
            for definition in self.definitions.get(name, []):
                if definition.value is not None:
                    for text, extent in self._extents_in(definition.value).items():
                        found.setdefault(text, extent)
            self._ranges[name] = found
        return self._ranges[name]

    def _extents_in(self, root: ast.AST) -> dict[str, ast.expr]:
        found: dict[str, ast.expr] = {}
        for inner in ast.walk(root):
            extent = self.arange(inner)
            if extent is not None:
                found.setdefault(ast.dump(extent), extent)
        return found

    def evaluate(self, node: ast.expr | None, known: Mapping[str, object]) -> Number | None:
        """Value of arithmetic over known names; None where anything is unknown.

        Understands `+ - * // / %`, `tl.cdiv`, `min`, `max` and `next_power_of_2`.
        """
        return _evaluate(node, known, self, 0)


def _evaluate(  # noqa: PLR0911 -- a return for each form of arithmetic
    node: ast.expr | None, known: Mapping[str, object], flow: Flow, depth: int
) -> Number | None:
    if depth > _DEPTH:
        return None
    match node:
        case ast.Constant(value=bool() | int() | float() as value):
            return value
        case ast.Name(id=name):
            given = known.get(name)
            if isinstance(given, int | float):
                return given
            return _evaluate(flow.known(name), known, flow, depth + 1)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _evaluate(operand, known, flow, depth + 1)
            return None if inner is None else -inner
        case ast.BinOp(left=left, op=op, right=right):
            first = _evaluate(left, known, flow, depth + 1)
            return _binary(op, first, _evaluate(right, known, flow, depth + 1))
        case ast.Call(args=args, keywords=[]):
            values = [_evaluate(a, known, flow, depth + 1) for a in args]
            return _called(flow.names.dotted(node.func).rpartition(".")[2], values)
        case _:
            return None


def _add(a: Number, b: Number) -> Number:
    return a + b


_BINARY: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: _add,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Div: lambda a, b: a / b,
    ast.Mod: lambda a, b: a % b,
}


def _binary(op: ast.operator, left: Number | None, right: Number | None) -> Number | None:
    apply = _BINARY.get(type(op))
    if apply is None or left is None or right is None:
        return None
    if right == 0 and isinstance(op, ast.FloorDiv | ast.Div | ast.Mod):
        return None
    return apply(left, right)


def _called(function: str, values: list[Number | None]) -> Number | None:
    numbers = [v for v in values if v is not None]
    if len(numbers) != len(values) or not numbers:
        return None
    match function, numbers:
        case "cdiv", [a, b] if b:
            return -(-a // b)
        case "min" | "minimum", _:
            return min(numbers)
        case "max" | "maximum", _:
            return max(numbers)
        case "next_power_of_2", [a] if a >= 1:
            return 1 << (int(a) - 1).bit_length()
        case _:
            return None
