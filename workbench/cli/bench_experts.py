"""`bench experts`: the shipped experts beside cuBLAS, cuDNN and the others, and their tuning."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli import emit, options
from workbench.cli.finding import kept
from workbench.cli.say import Exit, note
from workbench.errors import WorkbenchError

if TYPE_CHECKING:
    from workbench.bench.experts import Line, Row
    from workbench.bench.model import Variant

Workloads = Annotated[
    list[str] | None,
    typer.Argument(help="Problems that ship an expert [default: all].", metavar="PROBLEM"),
]


def register(app: typer.Typer) -> None:
    """Add the command to `bench`."""
    app.command(epilog="Example: workbench bench experts --keep experts.jsonl")(experts)


def experts(
    problems: Workloads = None,
    recorded: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="Print what was kept before.")
    ] = None,
    keep: Annotated[Path | None, typer.Option(metavar="FILE", help="Keep every sample.")] = None,
    tune: Annotated[
        bool, typer.Option("--tune", help="Time each expert's configurations instead.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="With --tune: write each best one there.")
    ] = None,
    device: options.Device = "auto",
    json: options.Json = False,
) -> None:
    """Time every shipped expert beside its vendors' libraries, in interleaved pairs.

    Prints the ratio of each and the geometric mean against the best vendor of each workload, beside
    KLineage's. Exits with 1 where a workload has no vendor that could be measured.
    """
    from workbench.bench.vendors import WORKLOADS

    names = problems or WORKLOADS
    if tune:
        _tune(names, device, out, json=json)
        return
    lines = _lines(names, recorded, keep, device)
    _print(names, lines, json=json)


def _lines(
    names: Sequence[str], recorded: Path | None, keep: Path | None, device: str
) -> "list[Line]":
    import msgspec

    from workbench.bench.experts import Head, read_lines
    from workbench.bench.experts_run import measure_experts
    from workbench.engine.devices import choose_place

    if recorded is not None:
        known = kept(read_lines(recorded), recorded, "workbench bench experts --keep")
        return [one for one in known if isinstance(one, Head) or one.workload in names]
    found: list[Line] = []
    for line in measure_experts(names, choose_place(device, ""), note):
        found.append(line)
        if keep is not None:
            with keep.open("ab" if len(found) > 1 else "wb") as file:
                file.write(msgspec.json.encode(line) + b"\n")
    return found


def _print(names: Sequence[str], lines: "Sequence[Line]", *, json: bool) -> None:
    from workbench.bench.experts import mean, rows

    found = rows(lines)
    for row in found:
        if json:
            emit.json(row)
        else:
            emit.text(_row(row))
    overall = mean(found)
    if not json:
        _foot(names, lines, overall)
    if overall is None or overall[1] < len(names):
        raise typer.Exit(Exit.NO)


def _foot(names: Sequence[str], lines: "Sequence[Line]", overall: tuple[float, int] | None) -> None:
    """What was not measured, what the rest holds for, and the mean."""
    from workbench.bench.experts import Head, Missing, quoted
    from workbench.bench.vendors import KLINEAGE_MEAN

    for name in names:
        for words in quoted(name):
            emit.text(f"{name:<16} {words}")
    for line in lines:
        if isinstance(line, Missing):
            emit.text(f"{line.workload:<16} {line.rival}: not measured: {line.says}")
        if isinstance(line, Head):
            held = ", ".join(f"{key} {value}" for key, value in line.versions.items())
            emit.text(f"{line.gpu}, {held}, {line.date}; interleaved pairs, L2 flushed")
    if overall is not None:
        emit.text(
            f"geometric mean against the best measured vendor: {overall[0]:.3f}x over "
            f"{overall[1]} of {len(names)} workloads (KLineage: {KLINEAGE_MEAN}x over its ten "
            "pairs, on other GPUs)"
        )


def _row(row: "Row") -> str:
    words = f"{row.ratio:.3f}x [{row.low:.3f}, {row.high:.3f}], {row.pairs} pairs"
    mark = "  <- best vendor" if row.best else ""
    times = f"{row.expert_us:9.1f} us  {row.rival:<34} {row.rival_us:9.1f} us"
    return f"{row.workload:<16} {times}  {words}{mark}"


def _tune(names: Sequence[str], device: str, out: Path | None, *, json: bool) -> None:
    from workbench.bench.model import Recording
    from workbench.bench.model_runs import time_here
    from workbench.bench.tuning import tuned_variants
    from workbench.engine.devices import choose_place

    place = choose_place(device, "")
    if place.index is None:
        raise WorkbenchError(
            "configurations are timed, and there is no GPU to time on",
            where=f"device {place.device}",
            todo="run it where a GPU is",
        )
    known = Recording(target=place.target, variants=tuple(tuned_variants(names)))
    timed = time_here(known, place, note)
    for name in names:
        own = [one for one in timed.variants if one.problem == name]
        _tuned(own, out, json=json)
    if not json:
        emit.text(f"medians of one run each, not paired: {timed.source}")


def _tuned(own: "Sequence[Variant]", out: Path | None, *, json: bool) -> None:
    ranked = sorted((one for one in own if one.us is not None), key=lambda one: one.us or 0.0)
    for one in (*ranked, *(one for one in own if one.us is None)):
        if json:
            emit.json({"problem": one.problem, "name": one.name, "us": one.us, "fault": one.fault})
        else:
            told = one.fault if one.us is None else f"{one.us:9.1f} us"
            emit.text(f"{one.problem:<16} {told}  {one.name}")
    if out is not None and ranked:
        out.mkdir(parents=True, exist_ok=True)
        (out / f"{ranked[0].problem}.py").write_text(ranked[0].source, encoding="utf-8")
