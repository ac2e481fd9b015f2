"""`learn`: walk an expert kernel backwards and keep the way as a lineage session."""

from pathlib import Path
from typing import Annotated

import typer

from workbench.cli import emit, options
from workbench.cli.say import note
from workbench.errors import WorkbenchError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: workbench learn --problem gemm --device cpu")(learn)


def learn(
    expert: Annotated[
        Path | None,
        typer.Argument(help="A file with ModelNew [default: the problem's shipped expert]."),
    ] = None,
    problem: Annotated[
        str, typer.Option(help="A shipped problem's name, or a KernelBench-form Python file.")
    ] = "",
    steps: Annotated[int, typer.Option(min=1, help="Most mechanisms to take out.")] = 15,
    rejections: Annotated[int, typer.Option(min=1, help="Most attempts that may fail.")] = 12,
    gpu_seconds: Annotated[
        float | None, typer.Option(min=0, help="GPU-seconds after which no attempt begins.")
    ] = None,
    wall_seconds: Annotated[
        float | None, typer.Option(min=0, help="Seconds after which no attempt begins.")
    ] = None,
    device: options.Device = "auto",
    target: options.Target = "",
    session: Annotated[
        str, typer.Option(help="Name of the session; alone, of one to go on with.")
    ] = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Take an expert kernel apart, one mechanism at a time, each step gated both ways.

    Leaves a lineage session that reads from naive to expert. Without EXPERT the one that is shipped
    with the problem is taken; with `--session` alone, the walk of that session goes on, in a new
    session where it had met a limit; with neither, the shipped experts are listed.
    """
    from workbench.cli.learned import Telling, report
    from workbench.engine.learning import learn
    from workbench.lineage.records import WalkLimits

    if expert is None and not problem and not session:
        _list(json=json)
        return
    path = _opened(expert, problem, device, target, session, sessions)
    telling = Telling(json=json)
    limits = WalkLimits(
        steps=steps, rejections=rejections, gpu_seconds=gpu_seconds, wall_seconds=wall_seconds
    )
    ended = learn(path, limits, telling.line, telling.event)
    if json:
        emit.json(ended)
    else:
        note(f"{ended.how}: {ended.says}")
        emit.text(report(path))


def _opened(
    expert: Path | None, problem: str, device: str, target: str, session: str, folder: Path | None
) -> Path:
    """The lineage session that is walked: a new one where an expert or a problem is named."""
    from workbench.engine.learning import LearnRequest, continued, create_lineage
    from workbench.engine.sessions import find_session, sessions_folder

    if expert is None and not problem:
        place = sessions_folder(folder)
        return continued(find_session(session, place), place)
    if not problem:
        raise WorkbenchError(
            "the expert's problem is needed", todo=f"workbench learn {expert} --problem gemm"
        )
    return create_lineage(
        LearnRequest(
            expert=expert,
            problem=problem,
            device=device,
            target=target,
            name=session,
            sessions=sessions_folder(folder),
        )
    )


def _list(*, json: bool) -> None:
    from workbench.engine.learning import shipped_experts

    for row in shipped_experts():
        if json:
            emit.json(row)
        else:
            emit.text(f"{row.problem:<16} {row.says}")
    if not json:
        note("workbench learn --problem gemm takes one of these apart")
