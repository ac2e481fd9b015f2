"""`bench`: print the README's tables from measurements made here and now."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli import (
    bench_cards,
    bench_experts,
    bench_gate,
    bench_gpu,
    bench_noise,
    bench_offline,
    bench_roundtrip,
    bench_search,
    emit,
    options,
)
from workbench.cli.say import Exit

if TYPE_CHECKING:
    from workbench.bench.costs import Row


def register(app: typer.Typer) -> None:
    """Add the commands."""
    benches = typer.Typer(
        help="Measure what the README claims, on this machine.",
        epilog="Example: workbench bench start",
    )
    benches.command(epilog="Example: workbench bench start")(start)
    benches.command(epilog="Example: workbench bench screen")(screen)
    benches.command(epilog="Example: workbench bench skills")(skills)
    bench_experts.register(benches)
    bench_gate.register(benches)
    bench_gpu.register(benches)
    bench_noise.register(benches)
    bench_offline.register(benches)
    bench_cards.register(benches)
    bench_roundtrip.register(benches)
    bench_search.register(benches)
    app.add_typer(benches, name="bench", no_args_is_help=True)


def start(json: options.Json = False) -> None:
    """Measure what you wait for.

    Exits with 1 if a goal is missed.
    """
    from workbench.bench.start import measure_start

    _print(measure_start, json=json)


def screen(
    pictures: Annotated[
        Path | None,
        typer.Option(help="Draw SVGs and record a terminal (asciicast) into this folder instead."),
    ] = None,
    bundle: Annotated[
        Path | None, typer.Option(help="Bundle of the session to show in the pictures.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Measure what the screen costs: first frame, key to paint, bytes, memory.

    Exits with 1 if a goal is missed.
    """
    from workbench.bench.screen import measure_screen

    if pictures is not None or bundle is not None:
        _draw(pictures, bundle)
        return
    _print(measure_screen, json=json)


def _draw(folder: Path | None, bundle: Path | None) -> None:
    from workbench.tui.pictures import make_pictures

    if bundle is None or folder is None:
        raise typer.BadParameter(
            "pictures need both: --pictures DIR and --bundle, a file that `export` wrote"
        )
    for file in make_pictures(bundle, folder):
        emit.text(f"{file} {file.stat().st_size >> 10} KiB")


def skills(json: options.Json = False) -> None:
    """Measure what facts, the policy, all cards' conditions and an edit cost.

    Exits with 1 if a goal is missed.
    """
    from workbench.bench.skills import measure_skills

    _print(measure_skills, json=json)


def _print(measure: Callable[[Callable[["Row"], None]], Iterator["Row"]], *, json: bool) -> None:
    def show(row: "Row") -> None:
        if json:
            emit.json(row)
        else:
            word = "ok" if row.met else "MISSED"
            emit.text(f"{row.what:<58} {row.says:>12}  goal {row.goal:<10} {word}")

    rows = list(measure(show))
    if not all(row.met for row in rows):
        raise typer.Exit(Exit.NO)
