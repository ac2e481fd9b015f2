"""Finds quantities that a model's text claims although nothing that it was shown supports them."""

import re
from collections.abc import Iterable
from typing import NamedTuple

_UNITS = {
    "\u03bcs": "us",
    "\u00b5s": "us",
    "micro": "us",
    "usec": "us",
    "milli": "ms",
    "msec": "ms",
    "nano": "ns",
    "nsec": "ns",
    "sec": "s",
    "times": "x",
    "\u00d7": "x",
    "fold": "x",
    "cycle": "cycles",
}
"""Spellings of units, by their beginning. Sizes of tiles and vectors are no claims, so they have no
unit here."""
_WHOLE = (
    r"(?:the |its |their )?(?:(?:run|kernel)?time|peak|roofline|bandwidth|throughput|latency)\b"
)
"""What a share may be of; `half of the row` is a size."""
_NUMBER = r"(?<![\w.])(\d[\d,_]*(?:\.\d+)?(?:e[+-]?\d+)?)"
_QUANTITY = re.compile(
    rf"{_NUMBER}\s*\\?"
    r"([%\uff05]|pct\b|per[ -]?cents?\b|percentage points?\b"
    r"|[u\u00b5\u03bcmn]s(?:ecs?)?\b|s(?:ec(?:ond)?s?)?\b|(?:micro|milli|nano)sec(?:ond)?s?\b|cycles?\b"
    r"|[kmgtp]i?b(?:it|yte)?s?(?:/s\b| (?:per|a) s(?:ec(?:ond)?)?\b)"
    r"|(?:kilo|mega|giga|tera)b(?:yte|it)s?(?: (?:per|a) |/)s(?:ec(?:ond)?)?\b"
    r"|[gtp]flops?(?:/s| per second)?\b|-?fold\b"
    r"|(?:x|\u00d7|times)"
    r"(?=\s+(?:faster|slower|speed|gain|improvement|win|better|as fast|less time)))",
    re.IGNORECASE,
)
_RATIO = re.compile(r"(?<![\w.])(\d+\.\d+)\s*(x|\u00d7)(?![\w])", re.IGNORECASE)
"""A ratio with digits behind its point: no size has any."""
_SPEEDUP = re.compile(
    r"(speed-?up)(?: of| is| by|:| =)? (\d+(?:\.\d+)?)(?![\w.%\s]*[x\u00d7%])", re.IGNORECASE
)
_SHARE = re.compile(rf"(?<![\w.])(0?\.\d+) of {_WHOLE}", re.IGNORECASE)
_TENS = "ten|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety|hundred"
_ONES = "one|two|three|four|five|six|seven|eight|nine|eleven|twelve|\\w+teen"
_WORD = re.compile(
    rf"\b(?:{_TENS}|{_ONES})(?:[- ]\w+)?\s*(?:%|per[ -]?cent\b)"
    rf"|\b(?:half|(?:a|one|two|three|four|five) (?:half|halves|thirds?|quarters?|fifths?|tenths?))"
    rf"(?: of)? {_WHOLE}"
    rf"|\b(?:doubl|halv|tripl)(?:es|ing) {_WHOLE}|\b(?:doubl|tripl)(?:es|ing) (?:the )?speed\b"
    r"|\b(?:twice|thrice|(?:two|three|four|five|ten) times) (?:as fast|faster|the speed)",
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


def quantities(text: str, *, bare: bool = True) -> list[Quantity]:
    """Shares, times, rates and speedups in a text; sizes and counts are left out.

    `bare`: also ratios that stand alone, as in `1.8x`. A share that is spelt out in words gets the
    value NaN, which nothing shown can equal.
    """
    found = [_quantity(m[1], _unit(m[2]), m[0]) for m in _QUANTITY.finditer(text)]
    told = [one.says for one in found]
    ratios = [_quantity(m[1], "x", m[0]) for m in _RATIO.finditer(text)]
    if bare:
        found += [one for one in ratios if not any(said.startswith(one.says) for said in told)]
    found += [_quantity(m[2], "x", m[0]) for m in _SPEEDUP.finditer(text)]
    for match in _SHARE.finditer(text):
        share = _quantity(match[1], "%", match[0])
        digits = max(0, share.decimals - 2)
        found.append(Quantity(round(share.value * 100, digits), "%", digits, share.says))
    words = (" ".join(match[0].split()) for match in _WORD.finditer(text))
    return found + [Quantity(float("nan"), "%", 0, says) for says in words]


def _quantity(digits: str, unit: str, says: str) -> Quantity:
    number = digits.replace(",", "").replace("_", "")
    decimals = len(number.partition("e")[0].partition(".")[2])
    return Quantity(float(number), unit, decimals, " ".join(says.split()))


def _unit(word: str) -> str:
    """One name for every spelling of a unit."""
    word = " ".join(word.casefold().removeprefix("-").split())
    if word[0] in "%\uff05p":
        return "%" if not word.startswith("pf") else word
    return next((unit for begin, unit in _UNITS.items() if word.startswith(begin)), word)


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
