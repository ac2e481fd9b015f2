"""The profile pane: the selected version's numbers beside its parent's, each with its kind."""

from collections.abc import Sequence
from typing import ClassVar

from textual.content import Content

from workbench.gate.records import GateReport
from workbench.measure.bottleneck import BottleneckClass
from workbench.measure.ncu.records import NcuState
from workbench.measure.records import Kind
from workbench.session.records import Transition
from workbench.tui.draw import Part, bar, cells, figure, fit, line, padded, wrapped
from workbench.tui.look import Look
from workbench.tui.metrics import Metric, metrics, roof_share
from workbench.tui.panes.base import VersionPane
from workbench.tui.panes.strip import stage_sign
from workbench.tui.panes.told import told
from workbench.tui.roofline import chart, point_of, roof_of
from workbench.tui.scene import Scene

_KIND_COLUMN_FROM = 56
"""Width from which each row names its kind; in narrower panes a tilde marks modeled values."""
_CELL, _CHANGE = 8, 9
CHART_ROWS = 14
"""Most rows of the roofline chart."""
EVIDENCE = 3
"""Most lines of evidence for a bottleneck; `card --json` has all of them."""


class Profile(VersionPane):
    """A table of metrics; those that got worse are marked by a sign and a colour."""

    number: ClassVar[int] = 3
    heading: ClassVar[str] = "Profile"

    def aside(self, scene: Scene) -> str:
        """The compared versions and the target."""
        version, record = scene.version, scene.record
        if version is None or record is None:
            return ""
        against = f" against v{record.parent}" if record.parent is not None else ""
        return f"v{version.number}{against}, {record.gate.target}"

    def foot(self, scene: Scene) -> str:
        """The kinds of the numbers, where the rows have no room for them."""
        record = scene.record
        if self.size.width >= _KIND_COLUMN_FROM or record is None or record.gate.time is None:
            return ""
        measured = record.gate.time.kind is Kind.MEASURED
        if measured and record.gate.ncu is not None and record.gate.ncu.launches:
            return "time and counters measured"
        return "time measured, the rest exact" if measured else "~ modeled, the rest exact"

    def draw(self, scene: Scene, width: int, height: int) -> list[Content]:
        """The table, or why there is none, and a roofline chart if there is room."""
        look, record = scene.look, scene.record
        if record is None:
            return _under_way(scene, width)
        found = metrics(record.gate, scene.parent.gate if scene.parent else None)
        if not found:
            return _stopped(record, look, width)
        head = _head(record.number, record.parent, look, width)
        rows = [_row(metric, look, width) for metric in found]
        share, bound, time = *reached(record.gate), record.gate.time
        if share is not None and time is not None:
            rows.insert(1, roof_line(share, bound, time.kind, look, width))
        lines = [head, *rows, *limit_lines(record.gate, look, width)]
        parent = scene.parent.gate if scene.parent else None
        rest = min(CHART_ROWS, height - len(lines))
        return [*lines, *chart(record.gate, parent, look, width, rest)]


def reached(gate: GateReport) -> tuple[float | None, str]:
    """The share of the roof that is reached, and which side binds: memory or arithmetic."""
    point, roof = point_of(gate), roof_of(gate)
    if gate.limit is None and point is not None and roof is not None:
        roof_here = roof.at(point.intensity)
        return point.tflops / roof_here, "arithmetic" if roof_here >= roof.tflops else "memory"
    return roof_share(gate), "memory" if gate.limit is None else gate.limit.bound


def limit_lines(gate: GateReport, look: Look, width: int) -> list[Content]:
    """Each kernel's bottleneck with evidence, the roof, and why counters are missing."""
    # Imported when needed, so that the first frame does not wait for it.
    from workbench.gate.bottlenecks import bottlenecks

    lines: list[Content] = []
    for kernel, found in bottlenecks(gate).items():
        if found.limit is not BottleneckClass.UNKNOWN:
            name = f"{kernel}: " if len(gate.launches) > 1 else ""
            lines += told("limit", f"{name}{found.says}; headroom {found.headroom}", look, width)
            for known in found.evidence[:EVIDENCE]:
                lines += told("", known.says(), look, width)
    if gate.limit is not None and gate.time is not None:
        said = f"{gate.limit.words(gate.time)}: {gate.limit.says}"
        lines += told("roof", said, look, width)
    if gate.ncu is not None and gate.ncu.state is not NcuState.PROFILED:
        lines += told("ncu", f"{gate.ncu.says}: {gate.ncu.todo}", look, width)
    return lines


def _under_way(scene: Scene, width: int) -> list[Content]:
    """What the stages have said so far, while the gate runs."""
    version = scene.version
    if version is None or version.commit:
        return []
    lines = [line((" in the gate; numbers come with profile", scene.look.faint))]
    for stage in scene.snapshot.strip:
        mark, style = stage_sign(stage, scene.look)
        said: list[Part] = [" ", (mark, style), f" {stage.stage:<12}"]
        lines.append(line(*said, (fit(stage.says, width - cells(said)), scene.look.muted)))
    return lines


def _stopped(record: Transition, look: Look, width: int) -> list[Content]:
    """What the gate found, if it ended before there were any numbers."""
    gate = record.gate
    lines = [line((f" no numbers: the gate ended at {gate.stage}", look.muted))]
    report = gate.report(gate.stage)
    said = [gate.says, *(found.says for found in report.findings)] if report else [gate.says]
    for text in dict.fromkeys(said):
        lines += [line(f" {part}") for part in wrapped(text, width - 2)]
    return lines


def _name_width(width: int) -> int:
    kind = 10 if width >= _KIND_COLUMN_FROM else 0
    return max(8, min(18, width - 2 * _CELL - _CHANGE - kind - 1))


def kind_style(kind: Kind, look: Look) -> str:
    """Style of a kind: modeled numbers stand out, exact ones do not."""
    return {Kind.MODELED: look.warn, Kind.EXACT: look.faint, Kind.MEASURED: look.good}[kind]


def _head(number: int, parent: int | None, look: Look, width: int) -> Content:
    name = " " * (_name_width(width) + 1)
    before = f"v{parent}" if parent is not None else ""
    return line(
        (f"{name}{f'v{number}':>{_CELL}}{before:>{_CELL}}{'change' if before else '':>{_CHANGE}}",
         look.muted)
    )  # fmt: skip


def _row(metric: Metric, look: Look, width: int) -> Content:
    wide = width >= _KIND_COLUMN_FROM
    before = "" if metric.parent is None else figure(metric.parent)
    tilde = "~" if metric.kind is Kind.MODELED and not wide else ""
    parts: list[Part] = [
        " ", (padded(metric.name, _name_width(width)), look.muted if metric.name[0] == " " else ""),
        (f"{tilde + figure(metric.value):>{_CELL}}", "bold"),
        (f"{before and tilde + before:>{_CELL}}", look.muted),
        *_change(metric, look),
    ]  # fmt: skip
    if wide:
        parts.append((f" {metric.kind:<9}", kind_style(metric.kind, look)))
        parts.append((fit(metric.note, max(0, width - cells(parts))), look.muted))
    return line(*parts)


def _change(metric: Metric, look: Look) -> Sequence[Part]:
    change = metric.change
    if change is None:
        return [" " * _CHANGE]
    share = abs(change) / metric.parent if metric.relative and metric.parent else None
    if not change or (share is not None and share < 0.0005):
        return [(f"{'same':>{_CHANGE - 2}}  ", look.faint)]
    size = figure(abs(change))
    if share is not None:
        size = f"{share:.0%}" if share >= 0.0095 else f"{share:.1%}"
    arrow = "▲" if change > 0 else "▼"
    neutral = not metric.better or metric.hair
    style = look.muted if neutral else look.bad if metric.worse else look.good
    alarm: Part = ("!", f"bold {look.bad}") if metric.worse else " "
    return [(f" {arrow}{size:>{_CHANGE - 4}} ", style), alarm]


def roof_line(share: float, bound: str, kind: Kind, look: Look, width: int) -> Content:
    """A bar of the share of the roof that is reached; `bound` is `memory` or `arithmetic`."""
    name, wide = " Roofline ", width >= _KIND_COLUMN_FROM
    tilde = "~" if kind is Kind.MODELED and not wide else ""
    percent = f"{tilde}{figure(100 * share)}%"
    says = f" {percent} of the {bound} roof" if wide else f" {percent} of roof"
    tail = f", {kind}" if wide else ""
    span = max(4, width - len(name) - len(says) - len(tail) - 2)
    return line(
        name, *bar(share, span, look.primary, look.line), ("┃", f"bold {look.warn}"),
        says, (tail, kind_style(kind, look)),
    )  # fmt: skip
