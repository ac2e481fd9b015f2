"""`bench noise`: how often a timing errs on this GPU."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli import emit, options
from workbench.cli.finding import kept
from workbench.cli.say import Exit, note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.bench.noise_record import Line
    from workbench.bench.noise_table import Row, Tables
    from workbench.bench.rates import Rate


def register(app: typer.Typer) -> None:
    """Add the command to `bench`."""
    app.command(epilog="Example: workbench bench noise --seconds 360 --keep noise.jsonl")(noise)


def noise(
    seconds: Annotated[
        float, typer.Option(min=30.0, help="About how long to use the GPU.")
    ] = 360.0,
    keep: Annotated[Path, typer.Option(help="File for all samples, written as they come.")] = Path(
        "noise.jsonl"
    ),
    recorded: Annotated[
        Path | None, typer.Option("--from", help="Make the tables from a kept file, without a GPU.")
    ] = None,
    device: options.Device = "auto",
    json: options.Json = False,
) -> None:
    """Count false and missed gains: equal kernels, and planted gains of 1, 2 and 5 %.

    Exits with 1 if a goal is missed.
    """
    from workbench.bench.noise_record import read_lines
    from workbench.bench.noise_table import tables

    if recorded is not None:
        lines = kept(read_lines(recorded), recorded, "workbench bench noise --keep")
    else:
        lines = _measured(seconds, keep, device)
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

    emit.text(_LINE.format(*_HEAD))
    for row in found.rows:
        emit.text(_row(row))
    _rates(found)
    emit.text("")
    _schemes(found)
    for line in lines:
        if isinstance(line, Missing):
            emit.text(f"not measured, {line.kernel}: {line.says}")
    if found.head is not None:
        held = ", ".join(f"{name} {version}" for name, version in found.head.versions.items())
        emit.text(f"{found.head.gpu}, {held}, {found.head.date}")


_HEAD = (
    *("kernel", "us", "planted", "true", "processes, sd", "pair IQR", "faster", "pairs", "GPU-s"),
    *("", ""),
)
_LINE = "{:<9}{:>7}{:>8}  {:<29}{:<33}{:>9}  {:<32}{:>5}{:>6}{}{}"


def _row(row: "Row") -> str:
    true = f"{row.true:.4f} [{row.true_low:.4f}, {row.true_high:.4f}]"
    return _LINE.format(
        row.kernel,
        f"{row.us:.1f}",
        f"{row.planted:g} %",
        f"{true} {row.true_pairs}",
        _processes(row),
        f"{100 * row.spread:.2f} %",
        row.faster.words(),
        "" if math.isnan(row.pairs) else f"{row.pairs:.0f}",
        "" if math.isnan(row.seconds) else f"{row.seconds:.2f}",
        "" if row.as_planted else "  not as planted",
        f"  clocks disagreed in {row.doubts}" if row.doubts else "",
    )


def _processes(row: "Row") -> str:
    """`4, 0.05 us, 0.9 % (pairs 0.3 %)`: what processes differ by beside what pairs explain."""
    if row.apart is None:
        return f"{row.processes}"
    us, own = row.apart * row.us, 100 * row.pairs_alone
    return f"{row.processes}, {us:.2f} us, {100 * row.apart:.2f} % (pairs {own:.2f} %)"


def _schemes(found: "Tables") -> None:
    emit.text("fixed schemes on the same samples, one side after the other, no interval: how often")
    emit.text("the candidate is called faster / by more than the threshold")
    names = list(dict.fromkeys(scheme.name for scheme in found.schemes))
    emit.text(f"{'':<20}" + "".join(f"{name:<40}" for name in names))
    order = {row.kernel: place for place, row in enumerate(found.rows)}
    shares: dict[tuple[float, int, str], dict[str, str]] = {}
    for one in found.schemes:
        said = f"{one.above_one:.0%} / {one.above_threshold:.0%}, {one.seconds:.2f} GPU-s"
        place = (one.planted, order.get(one.kernel, -1), one.kernel or "all kernels")
        shares.setdefault(place, {})[one.name] = said
    for (planted, _, kernel), cells in sorted(shares.items()):
        row = "".join(f"{cells.get(name, ''):<40}" for name in names)
        emit.text(f"{kernel:<12}{f'{planted:g} %':>5}   {row}".rstrip())


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
    if (apart := found.apart) is not None:
        emit.text(
            f"largest difference of equal processes: {apart.most_us:.2f} us in {apart.kernel}, "
            f"{apart.beyond_us:.2f} us beyond the noise of its pairs, of {apart.allowed_us:g} us "
            f"allowed, {apart.processes} process pairs {'ok' if apart.met else 'MISSED'}"
        )
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
