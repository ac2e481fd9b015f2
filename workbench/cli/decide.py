"""Commands that decide and steer: `accept`, `veto`, `undo`, `branch`, `pause`, `go`, `stop`."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli import emit, options
from workbench.cli.finding import client_of, version_number
from workbench.errors import WorkbenchError
from workbench.session.records import Answer

if TYPE_CHECKING:
    from workbench.engine.client import SessionClient

Pending = Annotated[
    str, typer.Argument(metavar="VERSION", help="The version that waits, like v3 or 3.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(epilog="Example: workbench accept 3")(accept)
    app.command(epilog='Example: workbench veto 3 --reason "reads past the row"')(veto)
    app.command(epilog='Example: workbench undo softmax-1 --reason "slower in the whole model"')(
        undo
    )
    app.command(epilog="Example: workbench branch softmax-1 v2")(branch)
    app.command(epilog="Example: workbench pause softmax-1")(pause)
    app.command(epilog="Example: workbench go softmax-1")(go)
    app.command(epilog="Example: workbench stop softmax-1")(stop)


def accept(
    version: Pending,
    reason: Annotated[str, typer.Option(help="Why, for the record.")] = "",
    session: options.In = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Accept the version that waits; `main` moves to it."""
    client = client_of(session, sessions)
    number = version_number(version, client.snapshot())
    _ask(client.decide(number, Answer.ACCEPTED, reason), json=json)


def veto(
    version: Pending,
    reason: Annotated[str, typer.Option(help="Why; the next step reads it.")],
    session: options.In = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Veto the version that waits; it stays in git under refs/attempts."""
    client = client_of(session, sessions)
    number = version_number(version, client.snapshot())
    _ask(client.decide(number, Answer.VETOED, reason), json=json)


def undo(
    session: options.SessionName = "",
    reason: Annotated[str, typer.Option(help="Why; later steps read it.")] = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Take the last accepted step back: `main` goes to what it was made from; nothing is lost.

    `refs/moves` tells it in git, and `workbench branch` goes to the step again.
    """
    client = client_of(session, sessions)
    newest = client.snapshot().incumbent
    if newest is None:
        raise WorkbenchError("nothing is accepted yet, so there is nothing to take back")
    _ask(client.undo(newest, reason), json=json)


def branch(
    session: Annotated[str, typer.Argument(help="Name of the session.")],
    version: Annotated[str, typer.Argument(help="An accepted version, like v2, or best.")],
    reason: Annotated[str, typer.Option(help="Why, for the record.")] = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Go on from another accepted version: the next step starts there."""
    client = client_of(session, sessions)
    number = version_number(version, client.snapshot())
    _ask(client.branch(number, reason), json=json)


def pause(
    session: options.SessionName = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Let the run wait after its running step."""
    _plain(session, sessions, json, lambda client: client.pause())


def go(
    session: options.SessionName = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """End a pause; in manual mode, start the next step."""
    _plain(session, sessions, json, lambda client: client.go())


def stop(
    session: options.SessionName = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """End the run after its running step; the best is kept."""
    _plain(session, sessions, json, lambda client: client.stop())


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
