"""`skills evidence`: what a recorded session says for and against the cards it used."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli import emit, options

if TYPE_CHECKING:
    from workbench.skills.writing import Added


def register(skills: typer.Typer) -> None:
    """Add the command."""
    skills.command(epilog="Example: workbench skills evidence sessions/rmsnorm-h200.bundle")(
        evidence
    )


def evidence(
    session: Annotated[
        str,
        typer.Argument(
            metavar="SESSION",
            help="Name or folder of a session, or a bundle that export wrote.",
        ),
    ],
    card: Annotated[str, typer.Option(help="Only of this card.")] = "",
    write: Annotated[
        bool, typer.Option("--write", help="Append it to the cards; nothing else changes.")
    ] = False,
    held_out: Annotated[
        bool,
        typer.Option("--held-out", help="The session's problem is not one the cards came from."),
    ] = False,
    shipped: options.Shipped = False,
    sessions: options.Sessions = None,
    json: options.Json = False,
) -> None:
    """Show each gated step of a session as evidence, good or bad; `--write` adds it to the cards.

    What is said of a shipped card goes into a copy in your own folder, which stands in for it.
    With --held-out each step is also a trial: accepted and faster there admits the card.
    """
    from workbench.engine.evidence import evidence_of
    from workbench.engine.sessions import find_session, sessions_folder
    from workbench.skills.library import load_library
    from workbench.skills.writing import add_evidence, file_for_trials

    if card:
        load_library().skill(card)
    path = Path(session)
    place = path if path.is_file() else find_session(session, sessions_folder(sessions))
    found = [one for one in evidence_of(place) if card in {"", one.card}]
    if not found and not json:
        about = f"the card {card}" if card else "any card"
        emit.text(f"no gated step of {session} speaks for or against {about}")
    if not write:
        for one in found:
            if json:
                emit.json({"card": one.card, "evidence": one.row})
            else:
                row = one.row
                speed = f"{row.ratio:.3f}x {row.kind}" if row.ratio else "not timed"
                emit.text(f"{one.card:<22} {row.verdict:<9} {speed:<16} {row.device}  {row.says}")
        return
    library = load_library()
    for name in dict.fromkeys(one.card for one in found):
        if name not in library.skills:
            emit.text(f"{name}: no such card any more; its evidence is left out")
            continue
        ours = [one for one in found if one.card == name]
        trials = [one.trial for one in ours] if held_out else []
        skill = library.skills[name]
        goal = file_for_trials(skill, shipped=shipped)
        added = add_evidence(skill.path, [one.row for one in ours], trials, into=goal)
        if json:
            emit.json({**_fields(added)})
        else:
            emit.text(_line(added))


def _fields(added: "Added") -> dict[str, object]:
    return {
        "card": added.card,
        "path": str(added.path),
        "evidence": added.evidence,
        "admission": added.admission,
        "known": added.known,
    }


def _line(added: "Added") -> str:
    if not (added.evidence or added.admission):
        known = f": it had {_number(added.known, 'row')} already" if added.known else ""
        return f"{added.card}: nothing to add{known}"
    trials = f", {_number(added.admission, 'trial')}" if added.admission else ""
    rows = _number(added.evidence, "row")
    known = f"; {added.known} it had already" if added.known else ""
    return f"{added.card}: {rows}{trials} added to {added.path}{known}"


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
