"""Finds quantities that a model's text claims although nothing that it was shown supports them."""

import math
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from workbench.agents import claims_words as words

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
    "cycle": "cycles",
    "clock": "cycles",
    "clk": "cycles",
    "watt": "w",
    "pp": "points",
    "percentage p": "points",
    "point": "points",
    "p": "%",
    "\uff05": "%",
}
"""Spellings of units, by their beginning. Sizes of tiles and vectors are not claims, so they have
no unit here."""
_UNIT = re.compile(
    rf"{words.NUMBER}[\s-]*\\?"
    r"([%\uff05]|pct\b|per[ -]?cents?\b|percentage[ -]points?\b|pp\b|points?\b"
    r"|[u\u00b5\u03bcmn]s(?:ecs?)?\b|s(?:ec(?:ond)?s?)?\b|(?:micro|milli|nano)sec(?:ond)?s?\b|minutes?\b"
    r"|(?:clock )?cycles?\b|clks?\b|[mg]hz\b|watts?\b|\u2030|bps\b"
    r"|[gt](?:ib|b(?:ytes?)?)\b(?!/s| (?:per|a) s)"
    r"|[kmgtp]i?b(?:it|yte)?s?(?:/s\b| (?:per|a) s(?:ec(?:ond)?)?\b)"
    r"|(?:kilo|mega|giga|tera)b(?:yte|it)s?(?: (?:per|a) |/)s(?:ec(?:ond)?)?\b"
    r"|[gtp]flops?(?:/s| per second)?\b)",
    re.IGNORECASE,
)
_RATIO = re.compile(r"(?<![\w.])(\d+[.,]\d+)\s*(?:x|\u00d7)(?![\w])", re.IGNORECASE)
"""A ratio with digits behind its point: no size has any."""
_SPEEDUP = re.compile(
    rf"speed-?up(?: of| is| by|:| =)? ~?{words.NUMBER}(?![\w.%\s]*[x\u00d7%])"
    rf"|(?<![\w.])(?:x|\u00d7) ?(\d[\d.]*) (?:faster|quicker)|{words.NUMBER} (?:x )?speed-?up\b",
    re.IGNORECASE,
)
_SHOWN_BYTES = re.compile(rf"{words.NUMBER}\s*([kmgt]?i?b)\b", re.IGNORECASE)
_SHOWN_COUNT = re.compile(
    rf"\b(?:static|launch)\.(registers|spills|waves|programs) = {words.NUMBER}", re.IGNORECASE
)
_SCALES = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_CHANGE = "change "
"""What the unit of a difference begins with: no share or time that is read bears it out."""
_SPEEDS = ("time", "run", "wall", "duration", "speed", "performance")
"""Measures whose ratio is the one that is shown as `1.2x`."""


class Quantity(NamedTuple):
    """A number with its unit."""

    value: float
    unit: str
    decimals: int
    """Digits after the decimal point: the precision that it claims."""
    says: str
    """The quantity as it was written."""


def quantities(text: str) -> list[Quantity]:
    """Shares, times, rates, ratios and moved bytes in a text; sizes and counts are left out.

    A fraction or a multiple that is spelt out (`halves the traffic`) gets the value NaN, which
    nothing equals but the same words.
    """
    text = unicodedata.normalize("NFKC", text)  # digits and signs of other widths and heights
    found = [*_with_units(text), *_factors(text), *_shares(text), *_amounts(text)]
    told = [one.says for one in found if one.unit.startswith("x")]
    ratios = [_quantity(m[1], "x", m[0]) for m in _RATIO.finditer(text)]
    return found + [one for one in ratios if not any(one.says in says for says in told)]


def shown_quantities(text: str) -> list[Quantity]:
    """`quantities` of a prompt, and every number of bytes and every fact that is counted in it."""
    found = [_quantity(m[1], m[2].lower(), m[0]) for m in _SHOWN_BYTES.finditer(text)]
    found += [_quantity(m[2], m[1], m[0]) for m in _SHOWN_COUNT.finditer(text)]
    return quantities(text) + found


def readings(text: str) -> list[Quantity]:
    """`shown_quantities` without ratios and differences: what a card promises is none of this
    kernel's."""
    found = shown_quantities(text)
    return [one for one in found if not one.unit.startswith(("x", _CHANGE))]


def _with_units(text: str) -> Iterator[Quantity]:
    for match in _UNIT.finditer(text):
        unit, spelt = _unit(match[2]), not match[1][0].isdigit()
        if spelt and (match[2].lower() in {"s", "second"} or match[0].lower() == "one cycle"):
            continue  # `one second pass`
        changes = words.CHANGING.search(text[: match.start()]) is not None
        changes = changes or words.CHANGED.match(text[match.end() :]) is not None
        if match[2].lower().startswith("point") and not changes:
            continue  # `two points`
        yield _quantity(match[1], _CHANGE * changes + unit, match[0])


def _factors(text: str) -> Iterator[Quantity]:
    """Ratios of something that only a profile tells."""
    for pattern in words.FACTORS:
        for match in pattern.finditer(text):
            said = [group for group in match.groups() if group]
            measure = next(filter(words.is_measure, said), "")
            factor = next(g for g in said if g != measure)
            unit = "x" if not measure or measure.lower().startswith(_SPEEDS) else f"x {measure}"
            if factor[0].isdigit() or words.number(factor):
                yield _quantity(factor, unit.lower(), match[0])
            else:
                yield Quantity(math.nan, unit.lower(), 0, " ".join(match[0].split()))
    for match in _SPEEDUP.finditer(text):
        yield _quantity(next(filter(None, match.groups())), "x", match[0])


def _shares(text: str) -> Iterator[Quantity]:
    for change, patterns in (("", words.SHARES), (_CHANGE, words.CUTS)):
        for pattern in patterns:
            for match in pattern.finditer(text):
                yield _share(match, change)


def _share(match: re.Match[str], change: str) -> Quantity:
    groups = [group for group in match.groups() if group]
    measure = next(filter(words.is_measure, groups), "")
    said = next(g for g in groups if g != measure)
    says = " ".join(match[0].split())
    if "/" in said or not said.lstrip(".")[0].isdigit():
        return Quantity(math.nan, f"{change}%", 0, says)
    digits = max(0, len(said.partition(".")[2]) - 2)
    unit = f"{change}% {measure}".strip().lower()
    value = float(said) if float(said) > 1 else round(float(said) * 100, digits)
    return Quantity(value, unit, digits, says)


def _amounts(text: str) -> Iterator[Quantity]:
    for unit, pattern in words.COUNTS:
        for match in pattern.finditer(text):
            yield _quantity(next(filter(None, match.groups())), unit, match[0])
    for pattern in words.AMOUNTS:
        for match in pattern.finditer(text):
            unit = re.sub(r"ytes?$", "", match[2].lower())
            yield _quantity(match[1], unit, match[0])


def _quantity(digits: str, unit: str, says: str) -> Quantity:
    decimals = len(re.sub(r"[eE].*|,\d{3}(?!\d)", "", digits).replace(",", ".").partition(".")[2])
    return Quantity(words.number(digits), unit, decimals, " ".join(says.split()))


def _unit(word: str) -> str:
    """One name for every spelling of a unit."""
    word = " ".join(word.casefold().replace("-", " ").split())
    word = re.sub(r"^([gt]b)ytes?$", r"\1", word)
    if word.startswith(("pb", "pib", "pf")):
        return word
    return next((unit for begin, unit in _UNITS.items() if word.startswith(begin)), word)


def unsupported(text: str, shown: Iterable[Quantity]) -> list[str]:
    """Quantities of the text, as written, that equal none of those shown at their precision."""
    known = list(shown)
    found = [one.says for one in quantities(text) if not any(_bears_out(s, one) for s in known)]
    return list(dict.fromkeys(found))


def _bears_out(shown: Quantity, claim: Quantity) -> bool:
    """Whether what was shown is what is claimed. Bytes are compared in either kind of kilo."""
    if math.isnan(claim.value):
        return shown.says.casefold() == claim.says.casefold()
    bases = _bytes(claim.unit)
    if bases:
        held = _bytes(shown.unit)
        return any(
            round(shown.value * a / b, claim.decimals) == claim.value for a in held for b in bases
        )
    same = shown.unit.removeprefix(_CHANGE) == claim.unit or shown.unit == claim.unit
    return same and round(shown.value, claim.decimals) == claim.value


def _bytes(unit: str) -> tuple[float, ...]:
    """How many bytes a unit of them may mean; nothing for any other unit."""
    match = re.fullmatch(r"([kmgt]?)(i?)b", unit)
    if match is None:
        return ()
    power = _SCALES[match[1]]
    return (1024.0**power,) if match[2] else (1000.0**power, 1024.0**power)
