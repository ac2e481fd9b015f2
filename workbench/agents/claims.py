"""Which quantities a text claims, and which of them nothing that the writer was shown bears out."""

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
"""What is written for what; sizes of tiles and vectors are no claims and have no unit here."""
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
    """Digits behind the point, as far as it claims to know."""
    says: str


def quantities(text: str) -> list[Quantity]:
    """Shares, times, rates and speedups that a text names, as written; sizes and counts are none.

    A share that is spelt out in words has a value that nothing shown can have.
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


def unborne(text: str, shown: Iterable[Quantity]) -> list[str]:
    """Quantities of the text, as written, that are none of those shown, to the digits given."""
    known = list(shown)
    return [
        claim.says
        for claim in quantities(text)
        if not any(
            one.unit == claim.unit and round(one.value, claim.decimals) == claim.value
            for one in known
        )
    ]
