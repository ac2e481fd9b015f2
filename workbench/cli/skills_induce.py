"""`skills induce`: draft cards from what recorded lineages and runs have in common."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli import emit, options
from workbench.cli.say import Exit

if TYPE_CHECKING:
    from workbench.lineage.induce import Induced


def register(skills: typer.Typer) -> None:
    """Add the command."""
    skills.command(epilog="Example: workbench skills induce gemm-lineage-1 --out drafts")(induce)


def induce(
    sessions: Annotated[
        list[str],
        typer.Argument(
            metavar="SESSION",
            help="Names or folders of lineages and runs, or bundles that export wrote.",
        ),
    ],
    beside: Annotated[
        list[str] | None,
        typer.Option(
            "--beside",
            metavar="SESSION",
            help="One whose steps count for and against these cards, and make none; again for "
            "more.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the drafts as TOML files into this folder.")
    ] = None,
    renew: Annotated[
        bool, typer.Option("--renew", help="Write cards that are there again; keep their trials.")
    ] = False,
    folder: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Lift one draft card from the recorded steps of each edit that helped, and from those of each
    mechanism that a model took out of an expert and put back.

    Parameters are those that worked, conditions what tells success from failure, risks the
    failures that no condition tells apart. A card has nothing that no recorded step supports, and a
    step that is in no card is told with its reason; `induced.jsonl` beside the drafts says of every
    step what became of it. Exits with 1 when none helped.
    """
    from workbench.engine.inducing import induced_from, keep_account, rows, save, told
    from workbench.engine.sessions import find_session, sessions_folder

    def place(name: str) -> Path:
        path = Path(name)
        return path if path.is_file() else find_session(name, sessions_folder(folder))

    found = induced_from([*map(place, sessions)], [*map(place, beside or ())])
    for one in found.cards:
        where = None if out is None else save(one, out, renew=renew)
        if json:
            emit.json({"card": one.card, "path": None if where is None else str(where)})
        else:
            emit.text(_told(one, where))
    if json:
        emit.json({"steps": rows(found)})
    else:
        for line in told(found.left_out):
            emit.text(line)
    if out is not None:
        keep_account(found, out)
    elif found.cards and not json:
        emit.text("nothing is written; --out DIR writes the drafts")
    if not found.cards:
        if not json:
            emit.text("no step was kept and faster: there is nothing to lift")
        raise typer.Exit(Exit.NO)


def _told(one: "Induced", where: Path | None) -> str:
    card = one.card
    sketch = f"a sketch of {len(card.carrier.sketch.splitlines())} lines"
    grid = "; ".join(f"{k} = {', '.join(map(str, v))}" for k, v in card.carrier.grid.items())
    steps = f"{one.helped} {'step' if one.helped == 1 else 'steps'} for it, {one.failed} against"
    told = sketch if card.carrier.sketch else grid or "no parameters"
    lines = [f"{card.id}: {steps}; {told}"]
    lines += [f"  if {p.when}  ({p.says})" for p in card.precondition]
    lines += [f"  risk: {r.says}  ({r.seen})" for r in card.risk]
    lines += [f"  -> {where}"] if where is not None else []
    return "\n".join(lines)
