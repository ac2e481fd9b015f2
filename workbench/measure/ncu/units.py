"""Numbers as Nsight Compute prints them: thousands separators, scaled units, `n/a`."""

import re

_NUMBER = re.compile(r"[+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?(?:[eE][+-]?\d+)?|[+-]?\.\d+")
_INSTANCES = re.compile(r"^(\S+)\s*[({].*[)}]$")
"""A value followed by the values of its instances, in brackets."""

_BYTES = {"byte": 1.0, "B": 1.0}
_SECONDS = {"second": 1.0, "s": 1.0, "sec": 1.0}
_PREFIXES = {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}

Scale = tuple[str, float]
"""Base unit (`B`, `s`, `B/s`, `%`, or empty for a count) and the factor that converts to it."""


def number(text: str) -> float | None:
    """The value of a cell; None for `n/a`, an empty cell, infinities and anything else."""
    cell = text.strip()
    instances = _INSTANCES.match(cell)
    if instances:
        cell = instances.group(1)
    if not _NUMBER.fullmatch(cell):
        return None
    return float(cell.replace(",", ""))


def scale(unit: str) -> Scale | None:
    """The meaning of one of ncu's units: `Mbyte/second` is 1e6 of `B/s`; None when unknown.

    Prefixes are decimal, as ncu's are: a Kbyte has 1000 bytes. A denominator other than seconds is
    ignored: a `Kbyte/block` is 1000 bytes, an `inst/cycle` a plain ratio.
    """
    above, _, below = unit.strip().partition("/")
    if above == "%":
        return "%", 1.0
    size = _scaled(above, _BYTES)
    if size is not None:
        per_second = _scaled(below, _SECONDS) if below else None
        return ("B", size) if per_second is None else ("B/s", size / per_second)
    if not below:
        duration = _scaled(above, _SECONDS)
        if duration is not None:
            return "s", duration
    return ("", 1.0) if re.fullmatch(r"[A-Za-z_ ]*", above) else None


def _scaled(word: str, bases: dict[str, float]) -> float | None:
    for base, factor in bases.items():
        prefix = word.removesuffix(base)
        if word.endswith(base) and prefix in _PREFIXES:
            return _PREFIXES[prefix] * factor
    return None


TO_OURS: dict[str, Scale] = {
    "%": ("%", 1.0),
    "B": ("B", 1.0),
    "us": ("s", 1e6),
    "GB/s": ("B/s", 1e-9),
}
"""Units of the catalogue: the base unit that each is converted from, and the factor."""


def convert(value: float, unit: str, wanted: str, factor: float = 1.0) -> float | None:
    """Convert a value of ncu's to a unit of the catalogue; None where the units do not match.

    A count or ratio (empty `wanted`) may also come from a percentage, or from bytes per something:
    its factor converts it.
    """
    found = scale(unit)
    if found is None:
        return None
    base, by = found
    if not wanted:
        per_thing = base == "B" and "/" in unit
        return value * by * factor if base in {"", "%"} or per_thing else None
    ours, times = TO_OURS[wanted]
    # A percentage may come as a plain ratio with a factor of 100 in the catalogue.
    if base == ours or (wanted == "%" and base == "" and factor != 1.0):
        return value * by * times * factor
    return None
