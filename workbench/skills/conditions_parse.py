"""Reads a condition: which expressions are allowed, and whether names and types go together."""

import ast
import difflib
import math
from collections.abc import Mapping

from workbench.errors import WorkbenchError
from workbench.kernels.facts_catalogue import CATALOGUE, FactSpec
from workbench.skills.conditions_terms import (
    All,
    Any,
    Arithmetic,
    Choice,
    Comparison,
    Condition,
    Constant,
    FactName,
    Negative,
    Not,
    Term,
    Type,
    article,
    type_of,
)

_LONGEST = 1000  # characters; keep every walk far from the recursion limit
_DEEPEST = 60  # levels of syntax; the same
_ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.In: "in",
    ast.NotIn: "not in",
}
_ORDERS = frozenset({"<", "<=", ">", ">="})


class ConditionFault(WorkbenchError):
    """A condition that cannot be read: what is wrong with it, and what was probably meant."""


def parse(text: str, catalogue: Mapping[str, FactSpec] = CATALOGUE) -> Condition:
    """Read a condition: comparison, arithmetic, `and or not` and membership over facts.

    Raises ConditionFault for anything else, for a fact that the catalogue lacks (it names the
    nearest one) and for types that do not go together.
    """
    condition = parse_value(text, catalogue)
    if condition.type != "flag":
        raise ConditionFault(
            f"`{text}` is {article(condition.type)}, not a yes or no",
            todo="compare it with something",
        )
    return condition


def parse_value(text: str, catalogue: Mapping[str, FactSpec] = CATALOGUE) -> Condition:
    """As `parse`, for an expression of any type: `2 * device.sms`."""
    if len(text) > _LONGEST:
        raise ConditionFault(f"the condition is longer than {_LONGEST} characters")
    try:
        tree = _parsed(text.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError) as fault:
        reason = fault.msg if isinstance(fault, SyntaxError) else str(fault)
        raise ConditionFault(
            f"`{text}` is not an expression: {reason}",
            todo="write comparisons over facts, such as `loop.trip_count >= 3`",
        ) from fault
    reader = _Reader(text, catalogue)
    if _depth(tree) > _DEEPEST:
        raise ConditionFault(f"`{text[:60]}...` is nested too deeply")
    term, kind = reader.read(tree.body)
    # Several lines are told as one.
    said = ast.unparse(tree) if "\n" in text.strip() else text
    return Condition(said, term, kind, tuple(reader.facts))


def _parsed(text: str) -> ast.Expression:
    """The syntax of a text, which may go over several lines as in parentheses."""
    if "\n" not in text:
        return ast.parse(text, mode="eval")
    tree = ast.parse(f"({text}\n)", mode="eval")
    if (tree.body.lineno, tree.body.col_offset) == (1, 0):
        raise SyntaxError("unmatched ')'")  # it closed the parenthesis that was put around it
    return tree


class _Reader:
    """Turns Python's syntax tree into terms, checking names and types on the way."""

    def __init__(self, text: str, catalogue: Mapping[str, FactSpec]) -> None:
        self._text = text
        self._catalogue = catalogue
        self.facts: dict[str, None] = {}

    def read(  # noqa: PLR0911 -- a return for each kind of term
        self, node: ast.expr
    ) -> tuple[Term, Type]:
        match node:
            case ast.Constant(value=bool() | int() | float() | str() as value):
                return self._constant(value)
            case ast.Name() | ast.Attribute():
                return self._fact(node)
            case ast.BoolOp(op=op, values=values):
                parts = tuple(self._typed(v, "flag") for v in values)
                return (All(parts) if isinstance(op, ast.And) else Any(parts)), "flag"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return Not(self._typed(operand, "flag")), "flag"
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self._negative(self._typed(operand, "number")), "number"
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                sides = self._typed(left, "number"), self._typed(right, "number")
                return Arithmetic(_ARITHMETIC[type(op)], *sides), "number"  # type: ignore[arg-type]  # from the table
            case ast.Compare():
                return self._comparison(node), "flag"
            case _:
                raise self._fault(
                    node, "is not allowed in a condition", "use comparison, arithmetic, and/or/not"
                )

    def _constant(self, value: bool | float | str) -> tuple[Term, Type]:
        if isinstance(value, float) and not math.isfinite(value):
            raise ConditionFault(f"a number in `{self._text}` is too large")
        return Constant(value), type_of(value)

    def _negative(self, operand: Term) -> Term:
        if isinstance(operand, Constant) and not isinstance(operand.value, bool | str):
            return Constant(-operand.value)
        return Negative(operand)

    def _typed(self, node: ast.expr, wanted: Type) -> Term:
        term, kind = self.read(node)
        if kind != wanted:
            todo = "compare it with something" if wanted == "flag" else ""
            raise self._fault(node, f"is {article(kind)} where {article(wanted)} is wanted", todo)
        return term

    def _fact(self, node: ast.expr) -> tuple[Term, Type]:
        name = _dotted(node)
        spec = self._catalogue.get(name)
        if spec is None:
            near = difflib.get_close_matches(name, self._catalogue, n=1)
            every = "`workbench facts --catalogue` lists all"
            todo = f"the nearest is `{near[0]}`; {every}" if near else every
            raise self._fault(node, "is not a fact", todo)
        self.facts[name] = None
        return FactName(name, spec.type), spec.type

    def _comparison(self, node: ast.Compare) -> Term:
        sides = [node.left, *node.comparators]
        parts = [
            self._pair(_COMPARISONS[type(op)], left, right, node)
            for op, left, right in zip(node.ops, sides, sides[1:], strict=False)
            if type(op) in _COMPARISONS
        ]
        if len(parts) != len(node.ops):
            raise self._fault(node, "compares with `is`", "use == or !=")
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def _pair(self, op: str, left: ast.expr, right: ast.expr, node: ast.Compare) -> Term:
        first, first_type = self.read(left)
        if op in {"in", "not in"}:
            return Comparison(op, first, self._holder(right, first_type))  # type: ignore[arg-type]  # from the table
        second, second_type = self.read(right)
        if first_type != second_type or first_type == "names":
            raise self._fault(
                node, f"compares {article(first_type)} with {article(second_type)}", ""
            )
        if op in _ORDERS and first_type != "number":
            raise self._fault(node, f"orders {article(first_type)}", "use == or !=")
        return Comparison(op, first, second)  # type: ignore[arg-type]  # from the table

    def _holder(self, node: ast.expr, wanted: Type) -> Term:
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            options = [self.read(e) for e in node.elts]
            if any(not isinstance(o, Constant) or kind != wanted for o, kind in options):
                raise self._fault(node, f"must hold constants, each {article(wanted)}", "")
            if not options:
                raise self._fault(node, "is empty", "")
            return Choice(tuple(o for o, _ in options if isinstance(o, Constant)))
        holder, kind = self.read(node)
        if kind != "names" or wanted != "text":
            raise self._fault(
                node,
                f"is {article(kind)}; `in` looks for a text in a set of names",
                'write `"x" in fact` or `fact in ("a", "b")`',
            )
        return holder

    def _fault(self, node: ast.expr, wrong: str, todo: str) -> ConditionFault:
        return ConditionFault(f"`{ast.unparse(node)}` {wrong}", where=f"`{self._text}`", todo=todo)


def _dotted(node: ast.expr) -> str:
    return ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""


def _depth(tree: ast.AST) -> int:
    level, depth = [tree], 0
    while level:
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        depth += 1
    return depth
