"""Commands that decide and steer: `accept`, `veto`, `undo`, `branch`, `pause`, `go`, `stop`."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli import emit, options
from workbench.cli.finding import client_of, one_session, version_number, words_apart
from workbench.errors import WorkbenchError
from workbench.session.names import spoken
from workbench.session.records import Answer

if TYPE_CHECKING:
    from workbench.engine.client import SessionClient


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog="Example: workbench accept softmax-1 v3")(accept)
    app.command(epilog='Example: workbench veto softmax-1 v3 --reason "reads past the row"')(veto)
    app.command(epilog='Example: workbench undo softmax-1 --reason "slower in the whole model"')(
        undo
    )
    app.command(epilog="Example: workbench branch softmax-1 v2")(branch)
    app.command(epilog="Example: workbench pause softmax-1")(pause)
    app.command(epilog="Example: workbench go softmax-1")(go)
    app.command(epilog="Example: workbench stop softmax-1")(stop)


def accept(
    session: options.SessionName = "",
    version: options.Waiting = "",
    reason: Annotated[str, typer.Option(help="Why, for the record.")] = "",
    named: options.In = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Accept the version that waits; `main` moves to it."""
    client, number = _version((session, version), named, sessions, "accept")
    _waits(client, number)
    _ask(client.decide(number, Answer.ACCEPTED, reason), json=json)


def veto(
    reason: Annotated[str, typer.Option(help="Why; the next step reads it.")],
    session: options.SessionName = "",
    version: options.Waiting = "",
    named: options.In = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Veto the version that waits; it stays in git under refs/attempts."""
    client, number = _version((session, version), named, sessions, "veto")
    _waits(client, number)
    _ask(client.decide(number, Answer.VETOED, reason), json=json)


def undo(
    session: options.SessionName = "",
    reason: Annotated[str, typer.Option(help="Why; later steps read it.")] = "",
    named: options.In = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Take the last accepted step back: `main` goes to what it was made from; nothing is lost.

    `refs/moves` records it in git, and `workbench branch` can return to the step.
    """
    client = client_of(one_session(session, named), sessions)
    newest = client.snapshot().incumbent
    if newest is None:
        raise WorkbenchError(
            "nothing is accepted yet, so there is nothing to take back",
            where=f"session {client.name}",
            todo="`workbench log` lists what there is",
        )
    _ask(client.undo(newest, reason), json=json)


def branch(
    session: options.SessionName = "",
    version: Annotated[
        str, typer.Argument(metavar="VERSION", help="An accepted version, like v2, or best.")
    ] = "",
    reason: Annotated[str, typer.Option(help="Why, for the record.")] = "",
    named: options.In = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Go on from another accepted version: the next step starts there."""
    client, number = _version((session, version), named, sessions, "branch")
    _ask(client.branch(number, reason), json=json)


def pause(
    session: options.SessionName = "",
    named: options.In = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Pause the run after its current step."""
    _plain(one_session(session, named), sessions, json, lambda client: client.pause())


def go(
    session: options.SessionName = "",
    named: options.In = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """End a pause; in manual mode, start the next step."""
    _plain(one_session(session, named), sessions, json, lambda client: client.go())


def stop(
    session: options.SessionName = "",
    named: options.In = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """End the run after its current step; the best is kept."""
    _plain(one_session(session, named), sessions, json, lambda client: client.stop())


def _version(
    words: tuple[str, str], named: str, sessions: options.Sessions, command: str
) -> tuple["SessionClient", int]:
    """The session and the one version that a command is about."""
    where, versions = words_apart(words, named, sessions, versions=1)
    if not versions:
        raise WorkbenchError(
            "a version is needed",
            where=f"workbench {command}",
            todo=_with_version(command, where, sessions),
        )
    client = client_of(where, sessions)
    return client, version_number(versions[0], client.snapshot())


def _with_version(command: str, where: str, sessions: options.Sessions) -> str:
    """The whole command for the version that waits; an example where none does."""
    example = f"workbench {command} v3, or workbench {command} SESSION v3"
    if command == "branch":
        return example
    try:
        snapshot = client_of(where, sessions).snapshot()
    except WorkbenchError:
        return example
    if snapshot.pending is None:
        return f"nothing waits in session {snapshot.name}; {example}"
    why = " --reason WHY" if command == "veto" else ""
    waiting = f"{spoken(Path(snapshot.path))} v{snapshot.pending}{why}"
    return f"v{snapshot.pending} waits: workbench {command} {waiting}"


def _waits(client: "SessionClient", number: int) -> None:
    """Refuse to decide what was decided: no engine that could be started would ask for it."""
    snapshot = client.snapshot()
    if snapshot.engine_pid is not None or snapshot.pending == number:
        return
    found = client.transition(number).decision
    waits = "nothing waits" if snapshot.pending is None else f"v{snapshot.pending} waits"
    raise WorkbenchError(
        f"v{number} does not wait for a decision: it was {found.answer} by {found.by}",
        where=f"session {snapshot.name}",
        todo=f"{waits} there; `undo` takes the last accepted step back, `branch` goes to one again",
    )


def _plain(
    session: str,
    sessions: options.Sessions,
    json: bool,
    wish: Callable[["SessionClient"], Awaitable[str]],
) -> None:
    _ask(wish(client_of(session, sessions)), json=json)


def _ask(answer: Awaitable[str], *, json: bool) -> None:
    async def wait() -> str:
        return await answer

    says = asyncio.run(wait())
    if json:
        emit.json({"granted": True, "says": says})
    else:
        emit.text(says)
