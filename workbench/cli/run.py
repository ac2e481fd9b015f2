"""`run`, `resume`, `attach` and `home`: start a session, go on with one, look at one or all."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from workbench.cli import emit, options
from workbench.cli.finding import one_session
from workbench.cli.say import Exit, note
from workbench.errors import WorkbenchError
from workbench.session.names import spoken
from workbench.session.records import Budget, Mode

_HEADLESS = "add --headless; `workbench status` and `workbench watch` show how a run is going"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog="Example: workbench run softmax --headless --steps 8 --device cpu")(run)
    app.command(epilog="Example: workbench resume softmax-1 --steps 20")(resume)
    app.command(epilog="Example: workbench attach softmax-1")(attach)
    app.command(epilog="Example: workbench home")(home)


def run(
    problem: Annotated[
        str,
        typer.Argument(
            metavar="PROBLEM", help="A shipped problem's name, or a KernelBench-form Python file."
        ),
    ],
    kernel: Annotated[
        Path | None, typer.Option(help="Start from this candidate (a file with ModelNew).")
    ] = None,
    headless: Annotated[
        bool, typer.Option("--headless", help="No screen: run here and print progress.")
    ] = False,
    mode: options.Mode = "",
    device: options.Devices = "auto",
    target: options.Target = "",
    steps: options.Steps = None,
    usd: options.Usd = None,
    gpu_seconds: options.GpuSeconds = None,
    wall_seconds: options.WallSeconds = None,
    goal: options.Goal = None,
    proposer: Annotated[
        str,
        typer.Option(help="skills: edits from cards; llm: a model; both: a model after the edits."),
    ] = "skills",
    baselines: Annotated[
        str,
        typer.Option(help="On a GPU: eager, or both to time torch.compile first, up to 2 minutes."),
    ] = "eager",
    ahead: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=64,
            help="Candidates to begin while another is gated [default: by cores; 0: none].",
        ),
    ] = None,
    beam: Annotated[
        int,
        typer.Option(
            min=1,
            max=64,
            help="Candidates to look at cheaply before the best goes through the whole gate.",
        ),
    ] = 1,
    session: Annotated[str, typer.Option(help="Name of the session [default: PROBLEM-N].")] = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Make a problem's kernel faster, one gated step at a time."""
    from workbench.engine.create import RunRequest, create_session

    on_screen = not headless and not json
    if on_screen:
        _screen_or_refuse(_HEADLESS)
    request = RunRequest(
        problem=problem,
        kernel=kernel,
        mode=_mode(mode, on_screen=on_screen),
        device=device,
        target=target,
        budget=Budget(
            steps=steps, usd=usd, gpu_seconds=gpu_seconds, wall_seconds=wall_seconds, goal=goal
        ),
        proposer=proposer,
        baselines=baselines,
        ahead=ahead,
        beam=beam,
        name=session,
        sessions=_folder(sessions),
    )
    path = create_session(request)
    tell_idle_limits(path)
    if on_screen:
        _open_screen(path, start=True, folder=request.sessions)
    else:
        _foreground(path, json=json)


def resume(
    session: options.SessionName = "",
    headless: Annotated[
        bool, typer.Option("--headless", help="No screen: run here and print progress.")
    ] = False,
    mode: options.Mode = "",
    steps: options.Steps = None,
    usd: options.Usd = None,
    gpu_seconds: options.GpuSeconds = None,
    wall_seconds: options.WallSeconds = None,
    goal: options.Goal = None,
    named: options.In = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Go on with a session after the process, the machine or the link died.

    Limits that are given replace the session's own and count from its beginning.
    """
    from workbench.engine.create import request_run
    from workbench.engine.sessions import find_session

    on_screen = not headless and not json
    path = find_session(one_session(session, named), _folder(sessions))
    if on_screen:
        _screen_or_refuse(_HEADLESS, spoken(path))
    request_run(
        path,
        mode=None if not mode else _mode(mode, on_screen=on_screen),
        budget=Budget(
            steps=steps, usd=usd, gpu_seconds=gpu_seconds, wall_seconds=wall_seconds, goal=goal
        ),
    )
    tell_idle_limits(path)
    if on_screen:
        _open_screen(path, start=True, folder=_folder(sessions))
    else:
        _foreground(path, json=json)


def attach(
    session: options.SessionName = "", named: options.In = "", sessions: options.Sessions = None
) -> None:
    """Open the screen on any session, running or saved."""
    from workbench.engine.sessions import find_session

    folder = _folder(sessions)
    path = find_session(one_session(session, named), folder)
    plain = "`workbench status`, `log --graph` and `watch` say the same in plain lines"
    _screen_or_refuse(plain, spoken(path))
    _open_screen(path, start=False, folder=folder)


def home(sessions: options.Sessions = None) -> None:
    """Open the screen on the list of sessions; `workbench` alone does the same on a terminal."""
    from workbench.tui.start import home as show_home

    _screen_or_refuse("`workbench sessions` lists them in plain lines")
    left = show_home(_folder(sessions))
    if left is not None:
        _farewell(left)


# -- pieces -----------------------------------------------------------------------------------


def tell_idle_limits(path: Path) -> None:
    """Say which limit can end nothing in this session, before a person waits for it."""
    from workbench.session.reader import SessionReader

    settings = SessionReader(path).settings()
    budget = settings.budget
    if budget.gpu_seconds is not None and settings.device == "cpu":
        note("--gpu-seconds has no effect here: no GPU is used; use --steps or --wall-seconds")
    if budget.usd is not None and settings.proposer == "skills":
        note("--usd has no effect here: no model is asked; --proposer llm or both asks one")


def _folder(sessions: Path | None) -> Path:
    from workbench.engine.sessions import sessions_folder

    return sessions_folder(sessions)


def _mode(word: str, *, on_screen: bool) -> Mode:
    if not word:
        return Mode.REVIEW if on_screen else Mode.AUTO
    try:
        return Mode(word)
    except ValueError as fault:
        raise WorkbenchError(
            f"{word!r} is not a mode", where="--mode", todo="use manual, review or auto"
        ) from fault


def _screen_or_refuse(instead: str, session: str = "") -> None:
    """Refuse before anything is created where no screen can be drawn; `instead` is what to do.

    `session` is what to type for the one that is there already.
    """
    import os
    import shutil

    from workbench.tui.layout import refusal

    if sys.stdin is None or not (sys.stdin.isatty() and emit.on_terminal()):
        raise WorkbenchError("there is no terminal to draw the screen on", todo=instead)
    size = shutil.get_terminal_size()
    why = refusal((size.columns, size.lines), dict(os.environ), session=session)
    if why:
        raise WorkbenchError(why, todo=instead)


def _open_screen(path: Path, *, start: bool, folder: Path) -> None:
    """Draw the first frame at once; the engine starts as a process of its own beside it."""
    from workbench.tui.start import show

    _farewell(show(path, start=start, folder=folder))


def _farewell(path: Path) -> None:
    """How the session that was shown last goes on, and how to come back to it."""
    from workbench.engine.client import SessionClient
    from workbench.tui.leave import leaving

    note(leaving(SessionClient(path).snapshot()).farewell())


def _foreground(path: Path, *, json: bool) -> None:
    """Run the loop in this process, with progress on stderr and the result on stdout."""
    from workbench.cli.progress import Progress
    from workbench.cli.report import final_report
    from workbench.engine.client import SessionClient
    from workbench.engine.serve import serve_session

    progress = Progress(json=json)
    ended = serve_session(path, listen=progress.show)
    client = SessionClient(path)
    if json:
        emit.json(client.snapshot())
    else:
        emit.text(final_report(client))
    if ended.how == "failed":
        raise typer.Exit(Exit.NO)
