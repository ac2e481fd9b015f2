"""`learn`: walk an expert kernel backwards and keep the way as a lineage session."""

from pathlib import Path
from typing import Annotated

import typer

from workbench.cli import emit, options
from workbench.cli.say import note
from workbench.errors import WorkbenchError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: workbench learn expert.py --problem gemm --device cpu")(learn)


def learn(
    expert: Annotated[
        Path | None, typer.Argument(help="An expert candidate (a file with ModelNew).")
    ] = None,
    problem: Annotated[
        str, typer.Option(help="A shipped problem's name, or a KernelBench-form Python file.")
    ] = "",
    steps: Annotated[int, typer.Option(min=1, help="Most mechanisms to take out.")] = 15,
    rejections: Annotated[int, typer.Option(min=1, help="Most attempts that may fail.")] = 12,
    device: options.Device = "auto",
    target: options.Target = "",
    session: Annotated[
        str, typer.Option(help="Name of the session; of an interrupted one, to go on with it.")
    ] = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Take an expert kernel apart, one mechanism at a time, each step gated both ways.

    Leaves a lineage session that reads from naive to expert. Without EXPERT, goes on with the
    walk of `--session`.
    """
    from workbench.cli.learned import Telling, report
    from workbench.engine.learning import LearnRequest, create_lineage, learn
    from workbench.engine.sessions import find_session, sessions_folder
    from workbench.lineage.records import WalkLimits

    if expert is None:
        if not session:
            raise WorkbenchError(
                "an expert is needed", todo="workbench learn expert.py --problem gemm"
            )
        path = find_session(session, sessions_folder(sessions))
    else:
        if not problem:
            raise WorkbenchError(
                "the expert's problem is needed",
                todo=f"workbench learn {expert} --problem gemm",
            )
        path = create_lineage(
            LearnRequest(
                expert=expert,
                problem=problem,
                device=device,
                target=target,
                name=session,
                sessions=sessions_folder(sessions),
            )
        )
    telling = Telling(json=json)
    limits = WalkLimits(steps=steps, rejections=rejections)
    ended = learn(path, limits, telling.line, telling.event)
    if json:
        emit.json(ended)
    else:
        note(f"{ended.how}: {ended.says}")
        emit.text(report(path))
