"""`verify`: whether what a session's commits claim still holds."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli import emit, options
from workbench.cli.finding import one_session
from workbench.cli.say import Exit
from workbench.errors import WorkbenchError

if TYPE_CHECKING:
    from workbench.engine.verifying import Claim


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: workbench verify softmax-1 --device cpu")(verify)


def verify(
    session: options.SessionName = "",
    card: Annotated[str, typer.Option(help="A card: repeat its admission trials.")] = "",
    cards: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where the card is, if not among yours.")
    ] = None,
    usd: Annotated[
        float | None, typer.Option(min=0, help="With a card that is a sketch: dollars a trial.")
    ] = None,
    device: options.Device = "auto",
    target: options.Target = "",
    named: options.In = "",
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Gate the accepted line again and compare with what its commits claim; or a card's trials.

    Exits with 1 when a claim does not hold. What this machine cannot check is reported,
    and never counted as holding.
    """
    from workbench.engine.sessions import find_session, sessions_folder
    from workbench.engine.trials import Where
    from workbench.engine.verifying import Standing, verify_card
    from workbench.engine.verifying import verify as verified
    from workbench.session.store import SessionStore
    from workbench.skills.library import load_library

    folder = sessions_folder(sessions)
    session = one_session(session, named)
    if card and session:
        raise WorkbenchError(
            "either a session is verified, or a card",
            where="workbench verify",
            todo=f"workbench verify {session}; or workbench verify --card {card}",
        )
    if not card and (cards is not None or target):
        raise WorkbenchError(
            "--cards and --target go with a card", where="workbench verify", todo="add --card ID"
        )
    if card:
        library = load_library(cards)
        if not library.skill(card).card.admission and not json:
            emit.text(
                f"{card} has no trial yet; workbench skills admit {card} --on auto makes some"
            )
            return
        where = Where(
            device=device,
            target=target,
            sessions=folder,
            providers=tuple(library.skills.values()),
            usd=usd,
        )
        claims = verify_card(library.skill(card), where, _nobody)
    else:
        claims = verified(SessionStore.open(find_session(session, folder)), device)
    count = dict.fromkeys(Standing, 0)
    for claim in claims:
        count[claim.standing] += 1
        if json:
            emit.json(claim)
        else:
            emit.text(_line(claim))
    if not json:
        emit.text(", ".join(f"{n} {standing}" for standing, n in count.items() if n))
    if count[Standing.DIFFERS]:
        raise typer.Exit(Exit.NO)


def _nobody(event: object) -> None:
    """What a trial says on its way is not a claim."""


def _line(claim: "Claim") -> str:
    return f"v{claim.number:<4} {claim.what:<8} {claim.standing:<12} {claim.says}"
