"""Profiles in plain text: what holds a version back, and two versions side by side."""

from collections.abc import Iterator

from workbench.gate.bottlenecks import bottlenecks
from workbench.gate.profiles import Compared, Value, compare
from workbench.gate.records import GateReport
from workbench.measure.ncu.records import NcuState

_EVIDENCE = 4
"""Lines of a card; `--json` has them all."""


def limit_lines(gate: GateReport) -> Iterator[str]:
    """Lines of a card: each kernel's bottleneck with its evidence, and how the counters ended."""
    for kernel, found in bottlenecks(gate).items():
        also = f"; also {', '.join(found.others)}" if found.others else ""
        yield f"  limit     {kernel}: {found.says}{also}; headroom {found.headroom}"
        for line in found.evidence[:_EVIDENCE]:
            if f"{line.fact} {line.value} {line.threshold}" not in found.says:
                yield f"            {line.says()}"
    record = gate.ncu
    if record is None:
        return
    where = f", report {record.report}" if record.report else ""
    yield f"  counters  {record.says} [{record.state}{where}]"
    if record.state is NcuState.PROFILED:
        yield (
            f"            ncu {record.version}, cache control {record.cache_control}, clock control"
            f" {record.clock_control}, isolation: {record.isolation}"
        )
        if record.confinement:
            yield f"            {record.confinement}"
    elif record.todo:
        yield f"            {record.todo}"


def side_by_side(a: GateReport, b: GateReport, names: tuple[str, str]) -> str:
    """A table of every number that either version has; a kind stands in each row."""
    from workbench.cli.emit import table

    rows: list[tuple[str, ...]] = []
    before: tuple[str, str] | None = None
    for one in compare(a, b):
        if (one.kernel, one.group) != before:
            before = one.kernel, one.group
            rows.append((f"{one.kernel or 'whole call'}: {one.group}", "", "", "", ""))
        rows.append(_row(one))
    if not rows:
        return "neither version has any number: the gate ended before there was one"
    return table(("", *names, "change", "kind"), rows)


def _row(one: Compared) -> tuple[str, ...]:
    return (
        f"  {one.name}",
        _said(one.a, one.unit),
        _said(one.b, one.unit),
        _change(one),
        one.kind.value if one.kind else "",
    )


def _said(value: Value | None, unit: str) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, str):
        return value
    return f"{_figure(value)} {unit}".rstrip()


def _figure(value: float) -> str:
    """Whole numbers in full, others to four digits."""
    if value.is_integer() and abs(value) < 1e15:
        return f"{value:.0f}"
    return f"{value:.4g}"


def _change(one: Compared) -> str:
    """`-12 %, better`; in the row's unit where the first is zero."""
    if one.delta is None:
        return ""
    if not one.delta:
        return "same"
    better = one.better * one.delta
    word = f", {'better' if better > 0 else 'worse'}" if better else ""
    if isinstance(one.a, float) and one.a and one.unit != "%":
        return f"{100 * one.delta / abs(one.a):+.1f} %{word}"
    unit = " points" if one.unit == "%" else f" {one.unit}".rstrip()
    return f"{one.delta:+.4g}{unit}{word}"
