"""Parses the output of `ncu --csv --page raw`, with any version's columns."""

import csv
import re
from collections.abc import Iterable, Iterator

from msgspec import Struct

from workbench.measure.ncu.catalogue import CATALOGUE, MetricSpec
from workbench.measure.ncu.records import NcuLaunch, Reading
from workbench.measure.ncu.units import convert, number

_MESSAGE = re.compile(r"^==(PROF|ERROR|WARNING)== ?(.*)$")
_HEAD = "ID"
_KERNEL, _GRID, _BLOCK = "Kernel Name", "Grid Size", "Block Size"
_EXTENTS = re.compile(r"\(\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\)")


class Printed(Struct, frozen=True, kw_only=True):
    """The launches and messages that ncu printed."""

    launches: tuple[NcuLaunch, ...] = ()
    messages: tuple[tuple[str, str], ...] = ()
    """Level (`PROF`, `ERROR` or `WARNING`) and text of each message."""

    def errors(self) -> tuple[str, ...]:
        """Texts of errors and warnings, in order."""
        return tuple(text for level, text in self.messages if level != "PROF")


def parse_raw(text: str) -> Printed:
    """Read a raw page. What cannot be understood is left out, so that no number is wrong.

    Columns that the catalogue does not know are ignored, missing ones stay unknown, and rows that
    do not fit their header are skipped. Lines outside the tables may be anything.
    """
    lines = text.splitlines()
    messages = tuple((m.group(1), m.group(2).strip()) for m in map(_MESSAGE.match, lines) if m)
    table = [line for line in lines if not _MESSAGE.match(line)]
    return Printed(launches=tuple(_launches(_cells(table))), messages=messages)


def _cells(lines: Iterable[str]) -> Iterator[list[str]]:
    """Rows of quoted cells; a line that is cut off within a cell is skipped."""
    for line in lines:
        if not line.startswith('"'):
            continue
        try:
            yield next(csv.reader([line.replace("\0", "")], strict=True))
        except csv.Error:
            continue


def _launches(rows: Iterator[list[str]]) -> Iterator[NcuLaunch]:
    head: list[str] = []
    units: list[str] | None = None
    for row in rows:
        if row[:1] == [_HEAD] and _KERNEL in row:
            head, units = row, None
        elif len(row) != len(head):
            continue
        elif not row[0].strip():
            units = row
        elif units is not None and row[0].strip().isdecimal():
            yield _launch(dict(zip(head, row, strict=True)), dict(zip(head, units, strict=True)))


def _launch(row: dict[str, str], units: dict[str, str]) -> NcuLaunch:
    readings = {}
    for spec in CATALOGUE.values():
        reading = _reading(spec, row, units)
        if reading is not None:
            readings[spec.name] = reading
    return NcuLaunch(
        kernel=_name(row[_KERNEL]),
        grid=_extents(row.get(_GRID, "")),
        block=_extents(row.get(_BLOCK, "")),
        readings=readings,
    )


def _reading(spec: MetricSpec, row: dict[str, str], units: dict[str, str]) -> Reading | None:
    """The number from its first source that is present in a compatible unit; None without one."""
    for source in spec.sources:
        value = number(row.get(source.metric, ""))
        if value is None:
            continue
        ours = convert(value, units.get(source.metric, ""), spec.unit, source.factor)
        if ours is not None:
            return Reading(value=ours, unit=spec.unit, metric=source.metric)
    return None


def _name(text: str) -> str:
    """A kernel's name without its arguments and namespaces."""
    return text.partition("(")[0].strip()


def _extents(text: str) -> tuple[int, int, int]:
    found = _EXTENTS.search(text)
    if found is None:
        return 0, 0, 0
    x, y, z = (int(number) for number in found.groups())
    return x, y, z
