"""`bench baselines`: what there is to beat on a GPU."""

from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli import emit, options
from workbench.cli.say import Exit, note

if TYPE_CHECKING:
    from workbench.measure.baselines import Baselines


def register(app: typer.Typer) -> None:
    """Add the commands to `bench`."""
    app.command(epilog="Example: workbench bench baselines rmsnorm softmax")(baselines)


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

    Leaves with 1 where a reference could not be timed.
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
