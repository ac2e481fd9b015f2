"""The terms of a condition: what may be written, what type it has, and how it is written back."""

from typing import Literal

from msgspec import Struct

from workbench.kernels.facts_catalogue import FactType

Type = FactType
"""`number`, `flag`, `text`, or `names`: a set of texts, which stands only on the right of `in`."""

Value = bool | int | float | str | tuple[str, ...]


class Constant(Struct, frozen=True):
    """A number, flag or text written out."""

    value: bool | int | float | str


class FactName(Struct, frozen=True):
    """A named fact, and the type that the catalogue gives it."""

    name: str
    type: Type


class Choice(Struct, frozen=True):
    """`("a", "b")`: what `in` looks through."""

    options: tuple[Constant, ...]


class Arithmetic(Struct, frozen=True):
    """Two numbers make one."""

    op: Literal["+", "-", "*", "/", "//", "%"]
    left: "Term"
    right: "Term"


class Negative(Struct, frozen=True):
    """A number's opposite."""

    operand: "Term"


class Comparison(Struct, frozen=True):
    """Two values make a flag."""

    op: Literal["<", "<=", ">", ">=", "==", "!=", "in", "not in"]
    left: "Term"
    right: "Term"


class Not(Struct, frozen=True):
    """A flag's opposite."""

    operand: "Term"


class All(Struct, frozen=True):
    """`a and b`."""

    parts: tuple["Term", ...]


class Any(Struct, frozen=True):
    """`a or b`."""

    parts: tuple["Term", ...]


class Condition(Struct, frozen=True):
    """A condition, or an expression of another type, whose names and types have been checked."""

    text: str
    """Text as its author wrote it."""
    term: "Term"
    type: Type
    facts: tuple[str, ...]
    """Names of the facts it reads, each once, in the order of the text."""


Term = Constant | FactName | Choice | Arithmetic | Negative | Comparison | Not | All | Any

_LOOSEST, _ALL, _NOT, _COMPARISON, _SUM, _PRODUCT, _SIGN, _ATOM = range(8)
_BINDS = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "//": _PRODUCT, "%": _PRODUCT}


def render(term: Term) -> str:
    """The term as text; parsing it gives the same term."""
    return _render(term)[0]


def _inside(term: Term, least: int) -> str:
    text, binds = _render(term)
    return text if binds >= least else f"({text})"


def _render(term: Term) -> tuple[str, int]:  # noqa: PLR0911 -- a return for each kind of term
    """The text, and how tightly its outermost operation binds."""
    match term:
        case Constant(value=value):
            negative = isinstance(value, int | float) and value < 0
            return repr(value), _SIGN if negative else _ATOM
        case FactName(name=name):
            return name, _ATOM
        case Choice(options=options):
            inside = ", ".join(repr(o.value) for o in options)
            return f"({inside},)" if len(options) == 1 else f"({inside})", _ATOM
        case Arithmetic(op=op, left=left, right=right):
            binds = _BINDS[op]
            return f"{_inside(left, binds)} {op} {_inside(right, binds + 1)}", binds
        case Negative(operand=operand):
            return f"-{_inside(operand, _ATOM)}", _SIGN
        case Comparison(op=op, left=left, right=right):
            return f"{_inside(left, _SUM)} {op} {_inside(right, _SUM)}", _COMPARISON
        case Not(operand=operand):
            return f"not {_inside(operand, _NOT)}", _NOT
        case All(parts=parts):
            return " and ".join(_inside(p, _NOT) for p in parts), _ALL
        case Any(parts=parts):
            return " or ".join(_inside(p, _ALL + 1) for p in parts), _LOOSEST


def type_of(value: Value) -> Type:
    """The type that a value has in a condition."""
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, int | float):
        return "number"
    return "text" if isinstance(value, str) else "names"


def article(kind: Type) -> str:
    """The type in words, with its article."""
    return {
        "number": "a number",
        "flag": "a yes or no",
        "text": "a text",
        "names": "a set of names",
    }[kind]
