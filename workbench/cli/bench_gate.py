"""`bench gate` and `bench fuzz`: what a verdict costs, and whether anything breaks the gate."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli import emit, options
from workbench.cli.say import Exit

if TYPE_CHECKING:
    from workbench.bench.costs import Row
    from workbench.bench.fuzz import Tried


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog="Example: workbench bench gate --device cpu")(gate)
    app.command(epilog="Example: workbench bench fuzz --minutes 5")(fuzz)


def gate(
    device: options.Device = "auto",
    only: Annotated[str, typer.Option(help="One measurement, like flight [default: all].")] = "",
    json: options.Json = False,
) -> None:
    """Measure what verdicts cost on this machine, medians of 5.

    Exits with 1 if a goal is missed.
    """
    from workbench.bench.gate import measure_gate
    from workbench.engine.devices import choose_place

    def show(row: "Row") -> None:
        if json:
            emit.json(row)
        else:
            word = "kept" if row.met else "MISSED"
            goal = f"  goal {row.goal:<9} {word}" if row.goal else ""
            emit.text(f"{row.what:<62} {row.says:>9}{goal}")
            for part, seconds in row.parts.items():
                emit.text(f"  {part:<60} {seconds:>7.3f} s")

    rows = list(measure_gate(choose_place(device, ""), only, show))
    if not all(row.met for row in rows):
        raise typer.Exit(Exit.NO)


def fuzz(
    minutes: Annotated[float, typer.Option(min=0.0, help="How long to go on.")] = 5.0,
    seed: Annotated[int, typer.Option(help="To repeat a round.")] = 1,
    json: options.Json = False,
) -> None:
    """Feed the gate what is meant to break it; exits with 1 if anything did."""
    from workbench.bench.fuzz import Fuzz

    until = time.monotonic() + 60 * minutes
    tried: list[Tried] = []

    def noted(one: "Tried") -> None:
        tried.append(one)
        if json:
            emit.json(one)
        elif one.wrong:
            emit.text(f"{one.kind} {one.name}: {one.said}; " + "; ".join(one.wrong))

    with Fuzz(seed) as trials:
        while time.monotonic() < until or not tried:
            for one in trials.all_hostile():
                noted(one)
                for _ in range(10):
                    noted(trials.damaged())
                if time.monotonic() >= until:
                    break
    bad = sum(bool(one.wrong) for one in tried)
    if not json:
        emit.text(_counted(tried))
    if bad:
        raise typer.Exit(Exit.NO)


def _counted(tried: "list[Tried]") -> str:
    kinds = {one.kind: sum(other.kind == one.kind for other in tried) for one in tried}
    parts = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    slowest = max(tried, key=lambda one: one.seconds)
    wrong = sum(bool(one.wrong) for one in tried)
    return (
        f"{len(tried)} candidates tried ({parts}): {wrong} broke something; the slowest verdict "
        f"took {slowest.seconds:.1f} s ({slowest.kind}: {slowest.name})"
    )
