"""`bench baselines` and `bench model`: what there is to beat, and what modeled times are worth."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli import emit, options
from workbench.cli.say import Exit, note
from workbench.errors import WorkbenchError

if TYPE_CHECKING:
    from workbench.bench.model import Row
    from workbench.measure.baselines import Baselines


def register(app: typer.Typer) -> None:
    """Add the commands to `bench`."""
    app.command(epilog="Example: workbench bench baselines rmsnorm softmax")(baselines)
    app.command(epilog="Example: workbench bench model")(model)


def baselines(
    problems: Annotated[
        list[str] | None,
        typer.Argument(help="Shipped problems or files [default: all shipped].", metavar="PROBLEM"),
    ] = None,
    anew: Annotated[
        bool, typer.Option("--anew", help="Also time what was timed within a day.")
    ] = False,
    device: options.Device = "auto",
    json: options.Json = False,
) -> None:
    """Time every problem's reference, eager and under torch.compile, beside the GPU's limit.

    Exits with 1 where a reference could not be timed.
    """
    from workbench.bench.baselines import measure_baselines
    from workbench.engine.devices import choose_place
    from workbench.measure.baselines import table

    place = choose_place(device, "")
    rows: list[Baselines] = []
    for row in measure_baselines(
        problems or (), place, anew=anew, waits=lambda: note("waiting: others have the GPU")
    ):
        rows.append(row)
        if json:
            emit.json(row)
            continue
        head, *lines = table(rows)
        for cells in (head, lines[0]) if len(rows) == 1 else lines[-1:]:
            emit.text(_line(cells))
    if not json:
        _foot(rows)
    if any(row.eager.time is None for row in rows):
        raise typer.Exit(Exit.NO)


def _foot(rows: "list[Baselines]") -> None:
    """What has no time and why, and what the numbers hold for."""
    for one in rows:
        for way in (one.eager, one.compiled):
            if way is not None and way.time is None:
                emit.text(f"{one.problem}: {way.outcome}: {way.says}")
    last = rows[-1]
    held = ", ".join(f"{name} {version}" for name, version in last.versions.items())
    limits = sorted({one.limit.source for one in rows if one.limit})
    emit.text(f"{last.gpu}, {held}; limits: {', '.join(limits) or 'unknown'}")


def _line(cells: tuple[str, ...]) -> str:
    widths = (18, 14, 22, 14, 10, 0)
    return "".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()


def model(
    problems: Annotated[
        list[str] | None,
        typer.Argument(help="Shipped problems [default: all].", metavar="PROBLEM"),
    ] = None,
    recording: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Variants and times kept before."),
    ] = None,
    keep: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write variants and times there.")
    ] = None,
    count: Annotated[int, typer.Option(min=2, help="Variants of each problem.")] = 8,
    anew: Annotated[
        bool, typer.Option("--anew", help="Compile, trace and (on a GPU) time now.")
    ] = False,
    judge: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write what follows for trust, as model_trust.json."),
    ] = None,
    device: options.Device = "cpu",
    json: options.Json = False,
) -> None:
    """Compare modeled with measured times, problem by problem; on `--device auto` measure them.

    Without --from and --anew the recording that is shipped is used. Exits with 1 where the model
    does not rank a problem's variants as the GPU does.
    """
    from workbench.bench.model import (
        RECORDED,
        read_recording,
        table,
        write_judgements,
        write_recording,
    )
    from workbench.bench.model_runs import record_here, time_here
    from workbench.engine.devices import choose_place
    from workbench.problems.load import shipped_problems

    place = choose_place(device, "")
    if anew:
        known = record_here(problems or shipped_problems(), place, count, note)
    else:
        known = read_recording(recording or RECORDED)
    if place.index is not None:
        known = time_here(known, place, note)
    elif device != "cpu":
        note("there is no GPU: nothing is timed now, the times are those that were recorded")
    if keep is not None:
        write_recording(keep, known)
    rows = _asked(table(known), problems or [])
    if judge is not None:
        write_judgements(judge, rows)
    for row in rows:
        if json:
            emit.json(row)
        else:
            emit.text("\n".join(_model_lines(row)))
    if not json:
        timed = sum(one.us is not None for one in known.variants)
        emit.text(f"{timed} kernels timed: {known.source or 'nothing was measured yet'}")
    if not all(row.judgement.trusted for row in rows):
        raise typer.Exit(Exit.NO)


def _asked(rows: "list[Row]", problems: list[str]) -> "list[Row]":
    """Rows of the problems that were named; every row when none was."""
    there = [row.judgement.problem for row in rows]
    for name in problems:
        if name not in there:
            raise WorkbenchError(
                f"no two variants of {name!r} were timed",
                where="workbench bench model",
                todo=f"there are {', '.join(there)}; --anew on a GPU times others",
            )
    return [row for row in rows if not problems or row.judgement.problem in problems]


def _model_lines(row: "Row") -> list[str]:
    one = row.judgement
    left = (
        "" if row.left_out is None else f", {100 * row.left_out:.0f} % scaled by the other problems"
    )
    agreed = "" if one.agreement is None else f", {100 * one.agreement:.0f} % of clear pairs agree"
    error = f"median error {100 * one.error:.0f} %{left}"
    verdict = "ranks" if one.trusted else "NOT TRUSTED TO RANK"
    lines = [f"{one.problem:<18} {one.says()}{agreed}; {error}: {verdict}"]
    for worst in row.worst:
        told = f"{worst.measured:.1f} us measured, {worst.modeled:.1f} modeled"
        lines.append(f"{'':<18} worst: {worst.name}: {told}")
    return lines
