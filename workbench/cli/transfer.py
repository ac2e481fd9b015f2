"""`export` and `import`: a session as one file, a git bundle."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from workbench.cli import emit, options
from workbench.cli.finding import session_and_word
from workbench.cli.say import note
from workbench.errors import WorkbenchError


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("export", epilog="Example: workbench export softmax-1 softmax.bundle")(
        export_session
    )
    app.command("import", epilog="Example: workbench import softmax.bundle --session mine")(
        import_session
    )


def export_session(
    session: options.SessionName = "",
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The bundle to write; never overwritten.")
    ] = "",
    named: options.In = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Write a whole session into one git bundle."""
    from workbench.engine.hints import unsent
    from workbench.engine.sessions import export, find_session, sessions_folder
    from workbench.session.reader import SessionReader

    where, target = session_and_word((session, file), named)
    if not target:
        raise WorkbenchError(
            "a file is needed to write the bundle to",
            where="workbench export",
            todo="workbench export softmax-1 softmax.bundle",
        )
    path = find_session(where, sessions_folder(sessions))
    left_out = export(path, Path(target))
    if json:
        emit.json({"session": str(path), "file": target, "left_out": left_out})
    else:
        emit.text(
            f"{target} holds session {path.name};"
            f" workbench import {shlex.quote(target)} opens it elsewhere"
        )
    for says in left_out:
        note(f"left out, because it cannot be read: {says}")
    if waiting := unsent(SessionReader(path)):
        hints = "1 hint" if waiting == 1 else f"{waiting} hints"
        note(f"left out: {hints} for the next step; a hint is committed with the step it led to")


def import_session(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A bundle that `export` wrote.")],
    session: Annotated[str, typer.Option(help="Name to give it [default: its own].")] = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Open a bundle as a session of its own; nothing in it is run."""
    from workbench.engine.sessions import import_file, sessions_folder
    from workbench.session.names import spoken

    path = import_file(file, sessions_folder(sessions), session)
    if json:
        emit.json({"session": str(path), "file": str(file)})
    else:
        emit.text(f"session {path.name} is in {path}; workbench attach {spoken(path)} opens it")
