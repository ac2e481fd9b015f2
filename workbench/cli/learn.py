"""`learn`: walk an expert kernel backwards and keep the way as a lineage session."""

from pathlib import Path
from typing import Annotated

import typer

from workbench.cli import emit, options
from workbench.cli.say import Exit, note
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
        float | None,
        typer.Option(min=0, help="Limit in GPU-seconds; no attempt starts that would not fit."),
    ] = None,
    wall_seconds: Annotated[
        float | None,
        typer.Option(min=0, help="Limit in seconds; no attempt starts that would not fit."),
    ] = None,
    proposer: Annotated[
        str,
        typer.Option(help="skills: inverse edits alone; both: a model for what they do not find."),
    ] = "skills",
    usd: options.Usd = None,
    stop: Annotated[
        bool,
        typer.Option("--stop", help="With --session: judge no more, write the chain there is."),
    ] = False,
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
    session where it had met a limit; with neither, the shipped experts are listed. Whatever ends a
    walk, its chain is written; `--session NAME --stop` writes that of one that was killed.
    """
    from workbench.cli.learned import Telling, ending
    from workbench.engine.learning import learn
    from workbench.lineage.records import Termination, WalkLimits

    if stop:
        _stop(session, sessions, alone=expert is None and not problem, json=json)
        return
    if expert is None and not problem and not session:
        _list(json=json)
        return
    telling = Telling(json=json)
    path = _opened(expert, problem, device, target, session, sessions, proposer, usd)
    limits = WalkLimits(
        steps=steps, rejections=rejections, gpu_seconds=gpu_seconds, wall_seconds=wall_seconds
    )
    ended = learn(path, limits, telling.line, telling.event)
    ending(path, ended, telling.seconds, json=json)
    if ended.how is Termination.INTERRUPTED:
        raise typer.Exit(Exit.INTERRUPTED)


def _stop(session: str, folder: Path | None, *, alone: bool, json: bool) -> None:
    """The chain of a walk that left none."""
    from workbench.cli.learned import ending
    from workbench.engine.sessions import find_session, sessions_folder
    from workbench.engine.walks import finish
    from workbench.session.names import spoken
    from workbench.session.reader import SessionReader

    if not session or not alone:
        raise WorkbenchError(
            "--stop ends the walk of a session that is there",
            todo="workbench learn --session NAME --stop",
        )
    path = find_session(session, sessions_folder(folder))
    ended = finish(path)
    if ended is None and SessionReader(path).overview().versions:
        raise WorkbenchError(
            f"the chain of {path.name} is written, and its walk is not here",
            where=str(path),
            todo=f"workbench log {spoken(path)} shows it",
        )
    if ended is None:
        raise WorkbenchError(
            f"session {path.name} has no removal that was judged, so there is no chain to write",
            where=str(path),
            todo=f"workbench learn --session {spoken(path)} goes on with a walk",
        )
    ending(path, ended, json=json)


def _opened(  # every choice of a new walk
    expert: Path | None,
    problem: str,
    device: str,
    target: str,
    session: str,
    folder: Path | None,
    proposer: str,
    usd: float | None,
) -> Path:
    """The lineage session that is walked: a new one where an expert or a problem is named."""
    from workbench.engine.learning import LearnRequest, continued, create_lineage
    from workbench.engine.sessions import find_session, sessions_folder

    if expert is None and not problem:
        place = sessions_folder(folder)
        return continued(find_session(session, place), place)
    if proposer not in {"skills", "both"}:
        raise WorkbenchError(
            f"{proposer} proposes no removals", where="--proposer", todo="one of skills, both"
        )
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
            proposer="both" if proposer == "both" else "skills",
            usd=usd,
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
