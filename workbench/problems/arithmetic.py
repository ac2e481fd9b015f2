"""Evaluates arithmetic over a problem's constants from text, without running any of it."""

import ast
import operator
from collections.abc import Callable, Mapping
from typing import TypeGuard

Number = int | float

_LONGEST = 500  # characters; keeps the parser and the walk far from any recursion limit
_DEEPEST = 60  # levels of syntax; a limit of our own, since Python's may be set by others
_LARGEST_EXPONENT = 64
_LARGEST = 2.0**200  # ours: far beyond any count of flops or bytes, far below slow integers

_BINARY: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_UNARY: dict[type[ast.unaryop], Callable[[Number], Number]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
_CALLS: dict[str, Callable[..., Number]] = {"min": min, "max": max}


class ArithmeticFault(Exception):
    """The expression is not arithmetic over the given names; the text says what is wrong."""


def evaluate(expression: str, names: Mapping[str, object]) -> Number:
    """The value of an expression of names, numbers, `+ - * / // % **`, `min` and `max`.

    Raises ArithmeticFault for anything else, an unknown name, a name without a number, a division
    by zero, a power above 64, and a result too large for any count of work.
    """
    if len(expression) > _LONGEST:
        raise ArithmeticFault(f"it is longer than {_LONGEST} characters")
    try:
        tree = ast.parse(" ".join(expression.split()), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as fault:
        raise ArithmeticFault("it is not an arithmetic expression") from fault
    level: list[ast.AST] = [tree]
    for _ in range(_DEEPEST):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    if level:
        raise ArithmeticFault("it is nested too deeply")
    return evaluate_node(tree.body, names)


def evaluate_node(node: ast.expr, names: Mapping[str, object]) -> Number:
    """As `evaluate`, for a parsed expression."""
    value = _value(node, names)
    # In this form nan fails too, and an integer of any length can be asked.
    if not abs(value) <= _LARGEST:
        raise ArithmeticFault(f"{_shown(node)} is out of range")
    return value


def _shown(node: ast.expr) -> str:
    """An expression as a person wrote it, unless it is long: then Python may refuse to print it."""
    try:
        text = ast.unparse(node)
    except (ValueError, RecursionError):
        text = ""
    return f"`{text}`" if 0 < len(text) <= _LONGEST else "a part of it"


def _value(node: ast.expr, names: Mapping[str, object]) -> Number:
    match node:
        case ast.Constant(value=value) if is_number(value):
            return value
        case ast.Name(id=name):
            return _named(name, names)
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return _UNARY[type(op)](evaluate_node(operand, names))
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(evaluate_node(left, names), evaluate_node(right, names))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            try:
                return _BINARY[type(op)](evaluate_node(left, names), evaluate_node(right, names))
            except ZeroDivisionError as fault:
                raise ArithmeticFault(f"{_shown(right)} is zero") from fault
        case ast.Call(func=ast.Name(id=name), args=[_, *_] as args, keywords=[]) if name in _CALLS:
            values = [evaluate_node(arg, names) for arg in args]
            return _CALLS[name](values)
        case _:
            raise ArithmeticFault(f"{_shown(node)} is not arithmetic over constants")


def _named(name: str, names: Mapping[str, object]) -> Number:
    if name not in names:
        known = ", ".join(sorted(names)) or "none"
        raise ArithmeticFault(f"there is no constant `{name}` (constants: {known})")
    value = names[name]
    if not is_number(value):
        raise ArithmeticFault(f"`{name}` is {value!r}, not a number")
    return value


def _power(base: Number, exponent: Number) -> Number:
    if abs(exponent) > _LARGEST_EXPONENT:
        raise ArithmeticFault(f"the power {exponent} is above {_LARGEST_EXPONENT}")
    try:
        value = base**exponent
    except (ZeroDivisionError, OverflowError) as fault:
        raise ArithmeticFault(f"{base} ** {exponent} has no finite value") from fault
    if isinstance(value, complex):
        raise ArithmeticFault(f"{base} ** {exponent} is not a real number")
    return value


def is_number(value: object) -> TypeGuard[Number]:
    """Whether a value is an int or float; a bool is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)
