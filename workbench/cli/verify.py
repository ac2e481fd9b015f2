"""`verify`: whether a session's commits say what is true."""

from typing import TYPE_CHECKING

import typer

from workbench.cli import emit, options
from workbench.cli.say import Exit

if TYPE_CHECKING:
    from workbench.engine.verifying import Claim


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: workbench verify softmax-1 --device cpu")(verify)


def verify(
    session: options.SessionName = "",
    device: options.Device = "auto",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Gate the accepted line again and compare with what its commits claim.

    Leaves with 1 when a claim does not hold. What this machine cannot check is said, and never
    counted as holding.
    """
    from workbench.engine.sessions import find_session, sessions_folder
    from workbench.engine.verifying import Standing
    from workbench.engine.verifying import verify as verified
    from workbench.session.store import SessionStore

    store = SessionStore.open(find_session(session, sessions_folder(sessions)))
    count = dict.fromkeys(Standing, 0)
    for claim in verified(store, device):
        count[claim.standing] += 1
        if json:
            emit.json(claim)
        else:
            emit.text(_line(claim))
    if not json:
        emit.text(", ".join(f"{n} {standing}" for standing, n in count.items() if n))
    if count[Standing.DIFFERS]:
        raise typer.Exit(Exit.NO)


def _line(claim: "Claim") -> str:
    return f"v{claim.number:<4} {claim.what:<8} {claim.standing:<12} {claim.says}"
