"""`bench`: print the README's tables from measurements made here and now."""

from typing import Annotated

import typer

from workbench.cli import emit, options
from workbench.cli.say import Exit


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: workbench bench start")(bench)


def bench(
    what: Annotated[str, typer.Argument(help="start: what a person waits for. More comes later.")],
    json: options.Json = False,
) -> None:
    """Measure what the README claims on this machine; leaves with 1 if a goal is missed."""
    from workbench.bench.start import Row, measure_start
    from workbench.errors import WorkbenchError

    if what != "start":
        raise WorkbenchError(f"there is no benchmark {what!r}", todo="there is: start")

    def show(row: Row) -> None:
        if json:
            emit.json(row)
        else:
            word = "ok" if row.met else "MISSED"
            emit.text(f"{row.what:<58} {row.says:>12}  goal {row.goal:<10} {word}")

    rows = list(measure_start(show))
    if not all(row.met for row in rows):
        raise typer.Exit(Exit.NO)
