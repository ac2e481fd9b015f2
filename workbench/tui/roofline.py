"""Draws a roofline chart in braille: the roof, a version and its parent (Williams et al. 2009)."""

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct
from textual.content import Content

from workbench.gate.records import GateReport
from workbench.kernels.records import LaunchTrace
from workbench.kernels.target import TARGETS, Target
from workbench.measure.records import FLOOR, Kind
from workbench.tui.draw import figure, line
from workbench.tui.look import Look

LEAST_ROWS = 5
"""Fewest free rows for a chart; with fewer, only the bar above it shows the share reached."""
_AXIS = 7
"""Cells to the left of the chart, for its scale."""
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of a braille character, by row and column of its dots."""


class Roof(Struct, frozen=True, kw_only=True):
    """Two straight lines on logarithmic axes."""

    gbps: float
    """Sustained DRAM bandwidth, 1e9 bytes a second."""
    tflops: float
    pipe: str
    """The arithmetic that `tflops` is for: `fp32`, `bfloat16`."""

    def at(self, intensity: float) -> float:
        """TFLOP/s that can be reached at an intensity in flops per byte."""
        return min(self.tflops, self.gbps * intensity / 1000)


class Point(Struct, frozen=True, kw_only=True):
    """One version's place in the chart."""

    intensity: float
    """Flops per byte that the problem must move at least; caches can only save other bytes."""
    tflops: float
    kind: Kind
    """Kind of the time."""


def point_of(gate: GateReport) -> Point | None:
    """A version's point; None unless its flops, bytes and time are known."""
    target, time = TARGETS.get(gate.target), gate.time
    flops = sum(t.vector_flops + sum(t.dot_flops.values()) for t in gate.traces)
    if target is None or time is None or flops <= 0 or time.microseconds <= 0:
        return None
    floor = time.detail.get(FLOOR, 0.0)
    if floor <= 0:
        return None
    intensity = flops / (floor * target.dram_gbps * 1e3)
    return Point(intensity=intensity, tflops=flops / time.microseconds / 1e6, kind=time.kind)


def roof_of(gate: GateReport) -> Roof | None:
    """The target's roof for the arithmetic that does most of the work; None without a target."""
    target = TARGETS.get(gate.target)
    if target is None:
        return None
    pipe = _pipe(gate.traces, target.tensor_tflops)
    if not pipe:
        return Roof(gbps=target.dram_gbps, tflops=target.fp32_tflops, pipe="fp32")
    return Roof(gbps=target.dram_gbps, tflops=_tensor(target, pipe), pipe=pipe)


def _tensor(target: Target, pipe: str) -> float:
    return target.tensor_tflops[pipe] * target.tensor_sustained


def _pipe(traces: Sequence[LaunchTrace], rates: Mapping[str, float]) -> str:
    """Operand type of most products; empty if elementwise work dominates or no rate is known."""
    totals: dict[str, float] = {}
    for trace in traces:
        for name, flops in trace.dot_flops.items():
            operand, _, precision = name.partition("/")
            pipe = "tf32" if precision.startswith("tf32") else operand
            totals[pipe] = totals.get(pipe, 0.0) + flops
    best = max(totals, key=lambda name: totals[name], default="")
    vector = sum(trace.vector_flops for trace in traces)
    return best if best in rates and totals[best] > vector else ""


def chart(
    own: GateReport, parent: GateReport | None, look: Look, width: int, rows: int
) -> list[Content]:
    """The chart in at most `rows` lines; empty without room or without a point."""
    here, roof = point_of(own), roof_of(own)
    before = point_of(parent) if parent is not None else None
    columns = width - _AXIS - 1
    if here is None or roof is None or rows < LEAST_ROWS or columns < 20:
        return []
    points = [p for p in (here, before) if p is not None]
    space = _Space(roof, points, columns, rows - 2)
    marks = {space.cell(here): ("◉", f"bold {look.primary}")}
    if before is not None:
        marks.setdefault(space.cell(before), ("●", look.muted))
    lines = []
    for row in range(rows - 2):
        axis = space.label(row)
        parts: list[tuple[str, str]] = [(f" {axis:>{_AXIS - 2}}", look.faint), ("│", look.line)]
        parts += [
            marks.get((column, row), (space.braille(column, row), look.warn))
            for column in range(columns)
        ]
        lines.append(line(*parts))
    lines.append(line((" " * (_AXIS - 1) + "└" + "─" * columns, look.line)))
    return [*lines, _legend(here, roof, space, look)]


def _legend(here: Point, roof: Roof, space: "_Space", look: Look) -> Content:
    says = (
        f" {figure(space.left)} to {figure(space.right)} flop per byte that must move;"
        f" roof {figure(roof.gbps / 1000)} TB/s, {figure(roof.tflops)} TFLOP/s {roof.pipe},"
        f" {here.kind}"
    )
    return line((says, look.muted))


class _Space:
    """Logarithmic axes that contain the roof's corner and every point."""

    def __init__(self, roof: Roof, points: Sequence[Point], columns: int, rows: int) -> None:
        corner = roof.tflops * 1000 / roof.gbps
        across = [corner, *(p.intensity for p in points)]
        self.left, self.right = min(across) / 8, max(across) * 8
        self.top = roof.tflops * 1.5
        self.bottom = min(roof.at(self.left), *(p.tflops for p in points)) / 1.5
        self._columns, self._rows = columns, rows
        self._lit = self._light(roof)

    def _light(self, roof: Roof) -> dict[tuple[int, int], int]:
        """Braille bits of the cells that the roof crosses, a dot in every column of dots."""
        lit: dict[tuple[int, int], int] = {}
        dots = self._columns * 2
        for dot in range(dots):
            share = (dot + 0.5) / dots
            x = self.left * (self.right / self.left) ** share
            height = self._share_up(roof.at(x)) * self._rows * 4
            row, inside = divmod(int(height), 4)
            if 0 <= row < self._rows:
                cell = (dot // 2, row)
                lit[cell] = lit.get(cell, 0) | _DOTS[inside][dot % 2]
        return lit

    def _share_up(self, tflops: float) -> float:
        """Height of a rate as a share of the chart: 0 at the top, 1 at the bottom."""
        return math.log(self.top / tflops) / math.log(self.top / self.bottom)

    def cell(self, point: Point) -> tuple[int, int]:
        """Column and row of a point."""
        across = math.log(point.intensity / self.left) / math.log(self.right / self.left)
        column = int(across * self._columns)
        row = int(self._share_up(point.tflops) * self._rows)
        return min(max(column, 0), self._columns - 1), min(max(row, 0), self._rows - 1)

    def braille(self, column: int, row: int) -> str:
        """The character that draws the roof in one cell."""
        bits = self._lit.get((column, row), 0)
        return chr(0x2800 + bits) if bits else " "

    def label(self, row: int) -> str:
        """The scale's label of a row, in TFLOP/s: only the top and bottom rows have one."""
        if row == 0:
            return figure(self.top)
        return figure(self.bottom) if row == self._rows - 1 else ""
