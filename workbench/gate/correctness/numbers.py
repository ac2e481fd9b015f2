"""Turns the measurements of one compared call into findings. Pure."""

import math

from workbench.gate.correctness.protocol import Compared, Measured
from workbench.gate.records import Finding

FLAG = 0.5
"""A margin above half of the bound deserves a look (gate protocol, section 8.4)."""


def check_numbers(compared: Compared) -> list[Finding]:
    """What is wrong with the numbers of one call; empty when every rule holds."""
    findings = [
        Finding(
            code="correctness.out-of-bounds",
            says=f"the call wrote next to input {number}, outside of every tensor",
            evidence={"input": number},
        )
        for number in compared.overrun
    ]
    return findings + [f for m in compared.measured for f in _check_one(m)]


def margin(compared: Compared) -> float:
    """The worst error of a call, divided by its bound."""
    return max((max(m.ratio, m.low_variance) for m in compared.measured), default=0.0)


def elements(compared: Compared) -> int:
    """How many elements were compared within a bound or for equality."""
    return sum(m.elements for m in compared.measured)


def _check_one(m: Measured) -> list[Finding]:
    name = m.what.removesuffix(" after the call")
    if m.kept:
        # Only where the reference leaves the tensor unchanged and the candidate does not.
        code = "input-modified" if m.what.startswith("input") else "state-modified"
        return [_finding(code, m, f"the call changes {name}, which the reference leaves alone")]
    if m.right:
        return []
    if m.untouched:
        says = f"the call leaves {name} as it was, the reference updates it"
        return [_finding("side-effect-missing", m, says)]
    return [_off(m)]


def _off(m: Measured) -> Finding:
    """A sentence on the worst element of a wrong tensor."""
    at = f" at {list(m.index)}" if m.index else ""
    if m.wrong_finite:
        says = (
            f"{m.what} is not finite where the answer is, or the reverse, in {m.wrong_finite} "
            f"of its elements: {m.value:g}{at}, the answer is {m.gold:g}"
        )
        return _finding("non-finite", m, says)
    if m.wrong_exact:
        value, answer = _told_apart(m.value, m.gold)
        says = f"{m.what} differs in {m.wrong_exact} elements: {value}{at}, not {answer}"
        return _finding("error-above-bound", m, says)
    if m.ratio > 1:
        says = (
            f"{m.what} is {m.value:g}{at}, the fp64 answer is {m.gold:g}: "
            f"{m.ratio:.3g} times the bound of {m.bound:.3g}"
        )
        return _finding("error-above-bound", m, says)
    if m.fewer_bits:
        says = (
            f"{m.what} was rounded to fewer bits than {m.dtype} has: its lowest bit is the same in "
            "all elements, and is not so in the answer"
        )
        return _finding("fewer-bits", m, says)
    says = f"{m.what} is off by {m.low_variance:.3g} times what its own small spread allows"
    return _finding("low-variance-error", m, says)


def _finding(code: str, m: Measured, says: str) -> Finding:
    return Finding(
        code=f"correctness.{code}",
        says=says,
        evidence={
            "tensor": m.what,
            "dtype": m.dtype,
            "index": ",".join(map(str, m.index)),
            "value": _number(m.value),
            "gold": _number(m.gold),
            "native": _number(m.native),
            "bound": _number(m.bound),
            "ratio": _number(m.ratio),
        },
    )


def _told_apart(*numbers: float) -> list[str]:
    """Different numbers with as few digits as show that they are, six at least."""
    for digits in (6, 9):
        texts = [f"{x:.{digits}g}" for x in numbers]
        if len(set(texts)) == len(numbers):
            return texts
    return [f"{x:.17g}" for x in numbers]


def _number(value: float) -> float | str:
    """The number as JSON can hold it, which has no non-finite ones."""
    return value if math.isfinite(value) else str(value)
