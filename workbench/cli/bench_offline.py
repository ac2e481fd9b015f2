"""`bench offline`: how far cards and edits come without a model or a person."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli import emit, options
from workbench.cli.say import note

if TYPE_CHECKING:
    from collections.abc import Iterable

    from workbench.bench.offline import OfflineRow


def register(app: typer.Typer) -> None:
    """Add the command to `bench`."""
    app.command(epilog="Example: workbench bench offline softmax gemm --steps 6 --wall-seconds 90")(
        offline
    )


Problems = Annotated[
    list[str] | None,
    typer.Argument(help="Shipped problems or files [default: all shipped].", metavar="PROBLEM"),
]


def offline(
    problems: Problems = None,
    steps: Annotated[int, typer.Option(min=0, help="Steps of each problem.")] = 15,
    wall: Annotated[
        float | None,
        typer.Option("--wall-seconds", "--wall", min=0, help="Seconds of work for each problem."),
    ] = None,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write a bundle of each session here.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--json-file", metavar="FILE", help="Write the table as JSON.")
    ] = None,
    kept: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="Print the table of a kept FILE; run nothing."),
    ] = None,
    replay: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH",
            help="Run nothing: place the kept steps of recorded sessions, a bundle or a folder of"
            " them, by the cards as they are now; may be given again.",
        ),
    ] = None,
    sessions: options.Sessions = None,
    device: options.Device = "auto",
    target: options.Target = "",
    json: options.Json = False,
) -> None:
    """Run the skills proposer from every plain seed and print what it reached.

    The same command goes on where it was interrupted. `workbench bench baselines` first gives the
    column of torch.compile, which is kept for a day.
    """
    from workbench.bench.offline import OfflineAsk, read_rows, run_offline
    from workbench.engine.devices import choose_place
    from workbench.engine.sessions import sessions_folder

    if kept is not None:
        _table(read_rows(kept), None, json=json)
        return
    if replay:
        _places(replay, json=json)
        return
    place = choose_place(device, target)
    ask = OfflineAsk(
        problems=tuple(problems or ()),
        steps=steps,
        wall_seconds=wall,
        folder=sessions_folder(sessions),
        keep=keep,
    )
    _table(run_offline(ask, place, note), file, json=json)


def _table(found: "Iterable[OfflineRow]", file: Path | None, *, json: bool) -> None:
    """Print rows as they come, and keep the table so far."""
    from workbench.bench.offline import HEAD, cells, summary

    rows: list[OfflineRow] = []
    for row in found:
        if not json and not rows:
            emit.text(_line(HEAD))
        rows.append(row)
        if file is not None:
            _write(file, rows)
        if json:
            emit.json(row)
        else:
            emit.text(_line(cells(row)))
            note(f"{row.problem}: {', '.join(row.cards) or 'no card'}; {row.ended}")
    if not json:
        for line in summary(rows):
            emit.text(line)


def _places(paths: "list[Path]", *, json: bool) -> None:
    """Print where today's cards place what recorded sessions kept."""
    from workbench.bench import replay

    rows: list[replay.Placed] = []
    for row in replay.replay(paths):
        if not json and not rows:
            emit.text(_line(replay.HEAD, _PLACES))
        rows.append(row)
        if json:
            emit.json(row)
        else:
            emit.text(_line(replay.cells(row), _PLACES))
            if row.unseen != 1:
                note(f"{row.problem} v{row.number}: {', '.join(row.before)} first; {row.why}")
    if not json:
        for line in replay.summary(rows):
            emit.text(line)


def _write(file: Path, rows: "list[OfflineRow]") -> None:
    """Replace the file by the table so far, so that an interrupted bench keeps its rows."""
    import msgspec

    from workbench.errors import WorkbenchError

    draft = file.with_name(f".{file.name}.draft")
    try:
        draft.write_bytes(msgspec.json.format(msgspec.json.encode(rows)) + b"\n")
        draft.replace(file)
    except OSError as fault:
        raise WorkbenchError(
            f"the table cannot be written: {fault.strerror}",
            where=str(file),
            todo="name a file in a folder that you can write to",
        ) from fault


_WIDTHS = (16, 10, 10, 10, 10, 10, 13, 6, 8)
_PLACES = (18, 10, 24, 9, 6, 6, 8, 5)


def _line(row: tuple[str, ...], widths: tuple[int, ...] = _WIDTHS) -> str:
    first, *rest = zip(row, widths, strict=True)
    return f"{first[0]:<{first[1]}}" + "".join(f"{text:>{width}}" for text, width in rest)
