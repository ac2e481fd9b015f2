"""Conditions over facts: yes, no or unknown, with the values that made it so.

The logic is Kleene's strong three-valued one (S. C. Kleene, Introduction to Metamathematics, 1952,
section 64): an unknown decides nothing, and no later value can overturn a yes or a no.
"""

import math
import operator
from collections.abc import Callable, Mapping
from decimal import Decimal

from msgspec import Struct

from workbench.kernels.records import Fact
from workbench.skills.conditions_parse import ConditionFault, parse, parse_value
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
    Value,
    article,
    render,
    type_of,
)
from workbench.skills.records import Check, Truth

__all__ = [
    "Answer",
    "Condition",
    "ConditionFault",
    "Unknown",
    "check",
    "evaluate",
    "evaluate_value",
    "parse",
    "parse_value",
    "render",
]

_LONG = 10**15
"""Whole numbers beyond it are shown by their leading digits (ours)."""
_APPLY: dict[str, Callable[[int | float, int | float], int | float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
}
_ORDER: dict[str, Callable[[int | float, int | float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Unknown(Struct, frozen=True):
    """The absence of a value, with the reason."""

    why: str


class Answer(Struct, frozen=True):
    """The result of an evaluation, with the values filled in."""

    truth: Truth
    because: str


def evaluate(condition: Condition, facts: Mapping[str, Fact]) -> Answer:
    """Whether it holds, and why. A fact that is missing, odd or unknown makes unknown, no error."""
    return _truth(condition.term, facts)


def evaluate_value(condition: Condition, facts: Mapping[str, Fact]) -> Value | Unknown:
    """The value of an expression of any type over the facts."""
    if condition.type != "flag":
        return _value(condition.term, facts)
    answer = evaluate(condition, facts)
    return Unknown(answer.because) if answer.truth is Truth.UNKNOWN else answer.truth is Truth.YES


def check(says: str, when: Condition, facts: Mapping[str, Fact], category: str = "") -> Check:
    """A condition of a card as a plan records it."""
    answer = evaluate(when, facts)
    return Check(
        says=says,
        when=when.text,
        truth=answer.truth,
        because=answer.because,
        category=category,
    )


def _truth(term: Term, facts: Mapping[str, Fact]) -> Answer:
    match term:
        case All(parts=parts):
            return _joined([_truth(p, facts) for p in parts], Truth.NO, "and")
        case Any(parts=parts):
            return _joined([_truth(p, facts) for p in parts], Truth.YES, "or")
        case Not(operand=operand):
            inner = _truth(operand, facts)
            return Answer(_OPPOSITE[inner.truth], f"not ({inner.because})")
        case Comparison():
            return _compare(term, facts)
        case _:
            value = _value(term, facts)
            if isinstance(value, Unknown):
                return Answer(Truth.UNKNOWN, value.why)
            truth = Truth.YES if value is True else Truth.NO
            return Answer(truth, f"{render(term)} -> {truth}")


_OPPOSITE = {Truth.YES: Truth.NO, Truth.NO: Truth.YES, Truth.UNKNOWN: Truth.UNKNOWN}


def _joined(parts: list[Answer], decides: Truth, word: str) -> Answer:
    """`and` is decided by a no, `or` by a yes; only the deciding part is reported."""
    truths = [p.truth for p in parts]
    if decides in truths:
        truth = decides
    elif Truth.UNKNOWN in truths:
        truth = Truth.UNKNOWN
    else:
        truth = _OPPOSITE[decides]
    told = dict.fromkeys(p.because for p in parts if p.truth is truth)
    return Answer(truth, f" {word} ".join(told))


def _compare(term: Comparison, facts: Mapping[str, Fact]) -> Answer:
    left = _value(term.left, facts)
    if isinstance(term.right, Choice):
        right: Value | Unknown = tuple(str(o.value) for o in term.right.options)
    else:
        right = _value(term.right, facts)
    reasons = [side.why for side in (left, right) if isinstance(side, Unknown)]
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        return Answer(Truth.UNKNOWN, ", ".join(dict.fromkeys(reasons)))
    holds = _holds(term, left, right)
    truth = Truth.YES if holds else Truth.NO
    if isinstance(term.right, Choice):
        return Answer(truth, f"{_shown(left)} {term.op} {render(term.right)} -> {truth}")
    here, there = _shown(left), _shown(right)
    if here == there and left != right:
        # Near numbers that differ: with all their digits, so that the answer can be seen.
        here, there = _shown(left, exact=True), _shown(right, exact=True)
    return Answer(truth, f"{here} {term.op} {there} -> {truth}")


def _holds(term: Comparison, left: Value, right: Value) -> bool:
    if term.op in {"in", "not in"}:
        if isinstance(term.right, Choice):
            inside = any(left == o.value for o in term.right.options)
        else:
            inside = isinstance(right, tuple) and left in right
        return inside == (term.op == "in")
    if term.op in {"==", "!="}:
        return (left == right) == (term.op == "==")
    numbers = isinstance(left, int | float) and isinstance(right, int | float)
    return numbers and _ORDER[term.op](left, right)  # type: ignore[arg-type]  # both are numbers


def _value(term: Term, facts: Mapping[str, Fact]) -> Value | Unknown:
    match term:
        case Constant(value=value):
            return value
        case FactName():
            return _fact_value(term, facts)
        case Negative(operand=operand):
            inner = _value(operand, facts)
            return inner if isinstance(inner, Unknown | str | tuple) else -inner
        case Arithmetic(op=op, left=left, right=right):
            return _arithmetic(op, _value(left, facts), _value(right, facts), term)
        case _:
            answer = _truth(term, facts)
            if answer.truth is Truth.UNKNOWN:
                return Unknown(answer.because)
            return answer.truth is Truth.YES


def _fact_value(term: FactName, facts: Mapping[str, Fact]) -> Value | Unknown:
    fact = facts.get(term.name)
    if fact is None or fact.value is None:
        return Unknown(f"{term.name} unknown")
    value = fact.value
    if type_of(value) != term.type:
        return Unknown(f"{term.name} is {value!r}, not {article(term.type)}")
    if isinstance(value, float) and not math.isfinite(value):
        return Unknown(f"{term.name} is {value}")
    return value


def _arithmetic(
    op: str, left: Value | Unknown, right: Value | Unknown, term: Arithmetic
) -> Value | Unknown:
    reasons = [side.why for side in (left, right) if isinstance(side, Unknown)]
    if reasons:
        return Unknown(", ".join(dict.fromkeys(reasons)))
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        return Unknown(f"{render(term)} is not about numbers")
    if right == 0 and op in {"/", "//", "%"}:
        return Unknown(f"{render(term.right)} is 0 in {render(term)}")
    try:
        result = _APPLY[op](left, right)
    except OverflowError:
        return Unknown(f"{render(term)} is too large")
    return result if math.isfinite(result) else Unknown(f"{render(term)} is too large")


def _shown(value: Value, *, exact: bool = False) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and not exact:
        return f"{value:.4g}"
    if isinstance(value, int) and abs(value) > _LONG and not exact:
        return f"{Decimal(value):.4g}"
    if isinstance(value, tuple):
        return "(" + ", ".join(value) + ")"
    return str(value)
