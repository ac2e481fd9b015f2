"""Finds quantities that a model's text claims although nothing that it was shown supports them."""

import re
from collections.abc import Iterable
from typing import NamedTuple

_UNITS = {
    "percent": "%",
    "per cent": "%",
    "μs": "us",
    "µs": "us",
    "microseconds": "us",
    "milliseconds": "ms",
    "nanoseconds": "ns",
    "times": "x",
}
"""Spellings of units. Sizes of tiles and vectors are no claims, so they have no unit here."""
_QUANTITY = re.compile(
    r"(?<![\w.])(\d[\d,_]*(?:\.\d+)?(?:e[+-]?\d+)?)\s*"
    r"(%|per ?cent\b|[uµμmn]s\b|(?:micro|milli|nano)seconds\b|[gt]i?b/s|[gt]flops?(?:/s)?\b"
    r"|(?:x|times)(?=\s+(?:faster|slower|speed|gain|improvement|as fast|less time)))",
    re.IGNORECASE,
)
_WORD = re.compile(
    r"\b(?:ten|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)(?:[- ]\w+)?"
    r"\s*(?:%|per ?cent\b)",
    re.IGNORECASE,
)


class Quantity(NamedTuple):
    """A number with its unit."""

    value: float
    unit: str
    decimals: int
    """Digits after the decimal point: the precision that it claims."""
    says: str
    """The quantity as it was written."""


def quantities(text: str) -> list[Quantity]:
    """Shares, times, rates and speedups in a text; sizes and counts are left out.

    A share that is spelt out in words gets the value NaN, which nothing shown can equal.
    """
    found = []
    for match in _QUANTITY.finditer(text):
        number = match[1].replace(",", "").replace("_", "")
        unit = match[2].casefold()
        decimals = len(number.partition("e")[0].partition(".")[2])
        says = " ".join(match[0].split())
        found.append(Quantity(float(number), _UNITS.get(unit, unit), decimals, says))
    words = (" ".join(match[0].split()) for match in _WORD.finditer(text))
    return found + [Quantity(float("nan"), "%", 0, says) for says in words]


def unsupported(text: str, shown: Iterable[Quantity]) -> list[str]:
    """Quantities of the text, as written, that equal none of those shown at their precision."""
    known = list(shown)
    return [
        claim.says
        for claim in quantities(text)
        if not any(
            one.unit == claim.unit and round(one.value, claim.decimals) == claim.value
            for one in known
        )
    ]
