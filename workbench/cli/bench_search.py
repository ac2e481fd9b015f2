"""`bench search`: what the ladder of rungs saves, and whether it finds the same kernel."""

from pathlib import Path
from typing import Annotated

import typer

from workbench.cli import emit, options
from workbench.cli.say import Exit, note
from workbench.errors import WorkbenchError


def register(app: typer.Typer) -> None:
    """Add the command to `bench`."""
    app.command(
        epilog="Example: workbench bench search --record --keep stream.jsonl --device cuda:all "
        "--seconds 280 --count 16 gemm layernorm rmsnorm softmax"
    )(search)


def search(  # every choice of one experiment
    problems: Annotated[
        list[str] | None,
        typer.Argument(help="Shipped problems or files [default: all shipped].", metavar="PROBLEM"),
    ] = None,
    record: Annotated[
        bool, typer.Option("--record", help="Look at candidates now, each at every rung.")
    ] = False,
    recording: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="Replay what was kept before.")
    ] = None,
    keep: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep every look, a line each.")
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=1, help="Limit of the recording, all problems together.")
    ] = 600.0,
    count: Annotated[int, typer.Option(min=2, help="Candidates of each problem.")] = 16,
    runs: Annotated[int, typer.Option(min=1, help="Replays of each problem's stream.")] = 200,
    device: options.Devices = "auto",
    target: options.Target = "",
    json: options.Json = False,
) -> None:
    """Replay one stream of candidates under several policies: what each cost, what each found.

    A run as it is, beams, the ladder, everything at full fidelity, one rung for all, and fixed
    successive halving, over the same kept samples. `--record` makes the recording first, on one
    GPU or several, or (modeled) without one. Leaves with 1 where a run misses its goals.
    """
    if record == (recording is not None) or (record and keep is None):
        raise WorkbenchError(
            "either a recording is made, or one is replayed",
            todo="workbench bench search --record --keep FILE; or --from FILE",
        )
    if record and keep is not None:
        _record(tuple(problems or ()), keep, seconds, count, device, target)
        recording = keep
    if not _replayed(recording or Path(), problems or [], runs, json=json):
        raise typer.Exit(Exit.NO)


def _replayed(recording: Path, problems: list[str], runs: int, *, json: bool) -> bool:
    """Print what the policies do with a recording; whether a run meets its goals."""
    from workbench.bench.search_records import read
    from workbench.bench.search_table import HEAD, POLICIES, cells, costs, summary, table

    wanted = [one for one in read(recording) if not problems or one.problem in problems]
    rows = table(wanted, runs)
    if not rows:
        raise WorkbenchError(
            "no problem of the recording has two candidates at every rung",
            where=str(recording),
            todo="record for longer: --record --keep the same file, with more --seconds",
        )
    found = summary(rows)
    if json:
        for row in rows:
            emit.json(row)
        emit.json(found)
        return found.met
    for words in (HEAD, *map(cells, rows)):
        emit.text(_line(words, _WIDTHS))
    emit.text("")
    for words in (POLICIES, *(one.cells() for one in found.policies)):
        emit.text(_line(words, _WIDE))
    for line in (*found.lines, costs(wanted)):
        emit.text(line)
    return found.met


def _record(
    problems: tuple[str, ...], keep: Path, seconds: float, count: int, device: str, target: str
) -> None:
    from workbench.bench.search_record import RecordAsk, record
    from workbench.engine.devices import choose_places

    ask = RecordAsk(problems=problems, count=count, seconds=seconds, file=keep)
    for _ in record(ask, choose_places(device, target), note):
        pass


_WIDTHS = (16, 9, 10, 10, 10, 10, 10, 8, 8)


_WIDE = (22, 9, 16, 9, 16, 17, 17)


def _line(row: tuple[str, ...], widths: tuple[int, ...]) -> str:
    first, *rest = zip(row, widths, strict=True)
    return f"{first[0]:<{first[1]}}" + "".join(f"{text:>{width}}" for text, width in rest)
