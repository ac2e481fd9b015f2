"""`bench noise`: how often a timing errs on this GPU."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli import emit, options
from workbench.cli.say import Exit, note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.bench.noise_record import Line
    from workbench.bench.noise_table import Rate, Row, Tables


def register(app: typer.Typer) -> None:
    """Add the command to `bench`."""
    app.command(epilog="Example: workbench bench noise --seconds 360 --keep noise.jsonl")(noise)


def noise(
    seconds: Annotated[
        float, typer.Option(min=30.0, help="For about how long the GPU is used.")
    ] = 360.0,
    keep: Annotated[Path, typer.Option(help="File for all samples, written as they come.")] = Path(
        "noise.jsonl"
    ),
    kept: Annotated[
        Path | None, typer.Option("--from", help="Make the tables from a kept file, without a GPU.")
    ] = None,
    device: options.Device = "auto",
    json: options.Json = False,
) -> None:
    """Count false and missed gains: equal kernels, and planted gains of 1, 2 and 5 %.

    Leaves with 1 if a goal is missed.
    """
    from workbench.bench.noise_record import read_lines
    from workbench.bench.noise_table import tables

    lines = read_lines(kept) if kept is not None else _measured(seconds, keep, device)
    found = tables(lines)
    if json:
        emit.json(found)
    else:
        _print(found, lines)
    if not found.met:
        raise typer.Exit(Exit.NO)


def _measured(seconds: float, keep: Path, device: str) -> "Sequence[Line]":
    from workbench.bench.noise_record import Decision, Missing, Stream
    from workbench.bench.noise_run import measure_noise
    from workbench.engine.devices import choose_place

    lines: list[Line] = []
    counts: dict[str, int] = {}
    for line in measure_noise(choose_place(device, ""), keep, seconds):
        lines.append(line)
        if isinstance(line, Stream) and line.planted == 0:
            note(f"{line.kernel} ...")
        if isinstance(line, Decision):
            counts[line.how] = counts.get(line.how, 0) + 1
        if isinstance(line, Missing):
            note(f"{line.kernel}: {line.says}")
    note(", ".join(f"{count} decisions of {how}" for how, count in counts.items()))
    return lines


def _print(found: "Tables", lines: "Sequence[Line]") -> None:
    from workbench.bench.noise_record import Missing

    emit.text(
        _LINE.format("kernel", "us", "planted", "true", "pair IQR", "faster", "pairs", "GPU-s")
    )
    for row in found.rows:
        emit.text(_row(row))
    _rates(found)
    emit.text("")
    emit.text("fixed schemes on the same streams, one side after the other, no interval:")
    for scheme in found.schemes:
        emit.text(
            f"  {scheme.name:<40}{scheme.planted:g} %: faster in {scheme.above_one:.0%}, by more "
            f"than the threshold in {scheme.above_threshold:.0%}; {scheme.seconds:.2f} GPU-s"
        )
    for line in lines:
        if isinstance(line, Missing):
            emit.text(f"{line.kernel} is missing: {line.says}")
    if found.head is not None:
        held = ", ".join(f"{name} {version}" for name, version in found.head.versions.items())
        emit.text(f"{found.head.gpu}, {held}, {found.head.date}")


_HEAD = ("kernel", "us", "planted", "true", "pair IQR", "faster", "pairs", "GPU-s")
_LINE = "{:<10}{:>9}{:>9}  {:<30}{:>9}  {:<32}{:>6}{:>7}"


def _row(row: "Row") -> str:
    true = f"{row.true:.4f} [{row.true_low:.4f}, {row.true_high:.4f}]"
    return _LINE.format(
        row.kernel,
        f"{row.us:.1f}",
        f"{row.planted:g} %",
        f"{true} {row.true_pairs}",
        f"{100 * row.spread:.2f} %",
        row.faster.words(),
        f"{row.pairs:.0f}",
        f"{row.seconds:.2f}",
    ) + (f"  clocks disagreed in {row.doubts}" if row.doubts else "")


def _rates(found: "Tables") -> None:
    from workbench.bench.noise_table import LEAST_FOUND, MOST_FALSE

    emit.text("")
    false, hit = found.rate(0.0), found.rate(2.0)
    emit.text(_goal("equals called faster, one run each", false, false.share <= MOST_FALSE))
    shown = math.ceil(math.log(0.05) / math.log1p(-MOST_FALSE))
    emit.text(
        f"  goal {100 * MOST_FALSE:g} %, which {shown} decisions without one would show; a gain is "
        "accepted only when a second run finds it again"
    )
    emit.text(_goal("2 % gains found, one run each", hit, hit.share >= LEAST_FOUND))
    for planted, what in ((0.0, "equals called faster"), (2.0, "2 % gains found")):
        again = found.rate(planted, resampled=True)
        emit.text(f"{what}, resampled from kept pairs: {again.words()} (not independent)")
    for planted, what in ((0.0, "equals accepted"), (2.0, "2 % gains accepted")):
        whole = [one for one in found.whole if one.planted == planted]
        if whole:
            cost = sorted(one.seconds for one in whole)[len(whole) // 2]
            took = sum(one.faster for one in whole)
            emit.text(f"whole decisions: {took} of {len(whole)} {what}, {cost:.2f} GPU-s each")


def _goal(what: str, found: "Rate", met: bool) -> str:
    return f"{what}: {found.words()} {'ok' if met else 'MISSED'}"
