"""`skills list`, `show`, `new`, `edit`, `lint`, `disable`, `pin`: cards, and what you decide."""

import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.cli import emit, options
from workbench.cli.say import Exit, note
from workbench.errors import WorkbenchError

if TYPE_CHECKING:
    from workbench.skills.card import Skill
    from workbench.skills.card_faults import CardFault
    from workbench.skills.library import Library

CardId = Annotated[str, typer.Argument(metavar="ID", help="Id of a card.")]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--cards", metavar="DIR", help="Cards of a folder, like drafts, instead of your own."
    ),
]


def register(skills: typer.Typer) -> None:
    """Add the commands."""
    skills.command("list", epilog="Example: workbench skills list")(list_cards)
    skills.command(epilog="Example: workbench skills show more-warps")(show)
    skills.command(epilog="Example: workbench skills new my-trick --edit num-warps")(new)
    skills.command(epilog="Example: workbench skills edit more-warps")(edit)
    skills.command(epilog="Example: workbench skills lint my-trick")(lint)
    skills.command(epilog="Example: workbench skills disable more-warps")(disable)
    skills.command(epilog="Example: workbench skills enable more-warps")(enable)
    skills.command(epilog="Example: workbench skills pin dot-tf32x3")(pin)
    skills.command(epilog="Example: workbench skills unpin dot-tf32x3")(unpin)


def list_cards(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="WORD",
            help="Only cards with all these words in their id, edit, standing, origin or title.",
        ),
    ] = None,
    counts: Annotated[
        bool, typer.Option("--counts", help="Only how far the cards have been tried.")
    ] = False,
    cards: Folder = None,
    json: options.Json = False,
) -> None:
    """List the cards in the plain order of techniques: standing, origin, your decision."""
    from workbench.skills.library import user_folder

    library = _library(cards)
    found = [s for s in library.skills.values() if _has(_row(s, library), words or [])]
    if counts:
        _counts(found, json=json)
        return
    if json:
        for skill in found:
            emit.json(_fields(skill, library))
        return
    if not found:
        raise WorkbenchError(
            f"no card has {' and '.join(repr(word) for word in words or [])} in its row",
            where="workbench skills list",
            todo="`workbench skills list` shows all",
        )
    rows = [_row(skill, library) for skill in found]
    emit.text(emit.table(("id", "edit", "standing", "from", "you", "title"), rows))
    emit.text(
        "admitted: a trial on a problem it did not come from held; tried: a step of it was kept; "
        "draft: neither yet"
    )
    own = f"your own cards lie in {user_folder()} and" if cards is None else f"cards of {cards}"
    emit.text(f"{own} stand in for shipped ones by id")
    every = len(library.skills)
    some = f"{len(found)} of {every} cards" if len(found) < every else f"{every} cards"
    emit.text(
        f"{some}; words choose some: `workbench skills list draft`, and `| less` shows a page"
    )


def _row(skill: "Skill", library: "Library") -> tuple[str, ...]:
    card = skill.card
    edit, decided = card.carrier.edit or "sketch", library.decided(card.id) or "-"
    return card.id, edit, skill.standing, _origin(skill), decided, card.title


def _has(row: tuple[str, ...], words: list[str]) -> bool:
    return all(any(word.casefold() in cell.casefold() for cell in row) for word in words)


def _fields(skill: "Skill", library: "Library") -> dict[str, object]:
    return {
        "card": skill.card,
        "standing": skill.standing,
        "from": skill.origin,
        "path": str(skill.path),
        "replaces": None if skill.replaces is None else str(skill.replaces),
        "decided": library.decided(skill.card.id),
    }


def _counts(skills: "list[Skill]", *, json: bool) -> None:
    from workbench.skills.counts import counts

    found = counts(skills)
    if json:
        emit.json(found)
        return
    rows = [
        ("cards", str(found.cards), "-"),
        ("admitted, tried, draft", f"{found.admitted}, {found.tried}, {found.draft}", "-"),
        ("with a step that was kept", str(found.kept), str(found.kept_measured)),
        ("tried on two problems", str(found.two_problems), str(found.two_problems_measured)),
        ("found right on two problems", str(found.two_problems_right), "-"),
        ("with a risk that was seen", str(found.risk_seen), "-"),
    ]
    emit.text(emit.table(("what", "cards", "by measured pairs"), rows))
    for name, lacks in found.poor.items():
        emit.text(f"{name} lacks {', '.join(lacks)}")


def _origin(skill: "Skill") -> str:
    return f"{skill.origin}, for the shipped one" if skill.replaces else skill.origin


def _library(folder: Path | None) -> "Library":
    """The installed cards; those of a folder stand in for a person's own."""
    from workbench.skills.library import load_library

    if folder is not None and not any(folder.glob("*.toml")):
        raise WorkbenchError(
            "there are no cards in this folder",
            where=str(folder),
            todo="name a folder of .toml files",
        )
    return load_library(folder)


def show(card: CardId, cards: Folder = None, json: options.Json = False) -> None:
    """Show one card with its conditions, risks and evidence."""
    library = _library(cards)
    skill = library.skill(card)
    if json:
        emit.json(skill.card)
    else:
        emit.text("\n".join(_card_lines(skill, library)))


def _card_lines(skill: "Skill", library: "Library") -> Iterator[str]:
    from workbench.search.ranking import methods_of
    from workbench.skills.policy_table import shipped_policy

    card = skill.card
    words = [skill.standing, _origin(skill), library.decided(skill.card.id), str(skill.path)]
    yield f"{card.id}: {card.title}  ({', '.join(w for w in words if w)})"
    yield f"  intent     {card.intent}"
    yield f"  anchor     {card.anchor or 'none'}"
    yield f"  scope      {', '.join(card.scope.families)} on {', '.join(card.scope.platforms)}"
    for name, values in (
        ("after", card.scope.after),
        ("not after", card.scope.not_after),
        ("requires", card.requires),
        ("provides", card.provides),
        ("conflicts", card.conflicts),
    ):
        if values:
            yield f"  {name:<10} {', '.join(values)}"
    if card.carrier.edit:
        grid = ", ".join(f"{k} in {list(v)}" for k, v in card.carrier.grid.items())
        yield f"  edit       {card.carrier.edit} {grid}"
    yield f"  methods    {', '.join(sorted(methods_of(skill, shipped_policy()))) or 'none'}"
    for one in card.precondition:
        yield f"  needs      {one.says}  [{one.when}]"
    for effect in card.effect:
        ends = [f"{end:g}x" for end in (effect.low, effect.high) if end is not None]
        yield f"  effect     {effect.metric} {effect.direction} {' to '.join(ends)}".rstrip()
    for risk in card.risk:
        yield f"  risk       {risk.says}  [{risk.when or 'always'}] {risk.seen}".rstrip()
    for row in card.evidence:
        speed = f"{row.ratio:.3f}x {row.kind}" if row.ratio else "not timed"
        where = f"{row.problem or row.session} on {row.device}, {row.commit[:9]}"
        yield f"  evidence   {row.verdict} {speed}, {where} {row.says}".rstrip()
    for proof in card.proof:
        told = f"modeled {proof.modeled:.3f}x" if proof.modeled else "no time"
        where = f"{proof.problem}, {proof.state}, {proof.commit[:9]}"
        yield f"  right      on {where}, {told}: no evidence of its speed"
    for trial in card.admission:
        held = "held out" if trial.held_out else "not held out"
        gained = "effect observed" if trial.effect_observed else "effect not observed"
        answer = "accepted" if trial.accepted else "rejected"
        kind = f", {trial.kind}" if trial.kind else ""
        yield f"  trial      {trial.target}: {held}, {answer}{kind}, {gained}"


def new(
    card: Annotated[str, typer.Argument(metavar="ID", help="Lower-case words, joined by hyphens.")],
    edit: Annotated[str, typer.Option(help="Its edit; without one, a sketch.")] = "",
    json: options.Json = False,
) -> None:
    """Write a commented card to start from into your own folder; it is a draft."""
    from workbench.skills.library import user_folder
    from workbench.skills.writing import skeleton

    text = skeleton(card, edit)
    path = user_folder() / f"{card}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as fault:
        raise WorkbenchError(
            "there is already a card of that name",
            where=str(path),
            todo=f"workbench skills edit {card}",
        ) from fault
    says = f"{path} is a draft to start from; workbench skills edit {card} opens it"
    _said({"card": card, "path": str(path)}, says, json=json)


def edit(card: CardId) -> None:
    """Open a card in $EDITOR; a shipped one is first copied to your folder. Lints it afterwards."""
    from workbench.skills.card import read_card
    from workbench.skills.library import load_library, user_folder

    path = user_folder() / f"{card}.toml"
    # A card of one's own is opened unread: it may be here to be mended.
    if not path.is_file():
        skill = load_library().skill(card)
        if skill.origin == "user":
            path = skill.path
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(skill.path.read_bytes())
            note(f"your copy is {path}; it stands in for the shipped card")
    editor = _editor(path)
    try:
        left = subprocess.run([*shlex.split(editor), str(path)], check=False).returncode
    except OSError as fault:
        raise WorkbenchError(
            f"the editor cannot be started: {fault.strerror}",
            where=editor,
            todo=f"set EDITOR, or edit {path} yourself",
        ) from fault
    if left:
        raise WorkbenchError(
            f"the editor left with {left}",
            where=editor,
            todo=f"workbench skills lint {card} says whether {path} can be used",
        )
    read_card(path)
    emit.text(f"{path} can be used")


def _editor(path: Path) -> str:
    """What a person set; `vi` only where they can see it."""
    chosen = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not chosen and not emit.on_terminal():
        raise WorkbenchError(
            "there is no terminal for an editor",
            where=str(path),
            todo="set EDITOR, or edit the file yourself",
        )
    return chosen or "vi"


def lint(
    cards: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CARD", help="Ids or files of cards [default: yours and the shipped ones]."
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Check cards strictly; every fault names file, key, value and what was expected."""
    faults, seen = _linted(cards or [])
    for fault in faults:
        if json:
            emit.json({"error": {"what": fault.what, "where": fault.where, "todo": fault.todo}})
        else:
            emit.text(str(fault))
    if json:
        emit.json({"cards": seen, "faults": len(faults)})
    if faults:
        raise typer.Exit(Exit.NO)
    if not json:
        emit.text(f"{seen} {'card' if seen == 1 else 'cards'} can be used")


def _linted(cards: list[str]) -> tuple[list["CardFault"], int]:
    """What is wrong, and how many files were looked at."""
    from workbench.paths import shipped
    from workbench.skills.card import read_card
    from workbench.skills.card_faults import CardFault
    from workbench.skills.library import lint_folder, load_library, user_folder

    if not cards:
        ours, theirs = shipped("skills"), user_folder()
        faults = [*lint_folder(ours, "shipped"), *lint_folder(theirs, "user", ours)]
        return faults, len([*ours.glob("*.toml"), *theirs.glob("*.toml")])
    faults = []
    for card in cards:
        path = Path(card)
        own = user_folder() / f"{card}.toml"
        if "/" not in card and path.suffix != ".toml":
            # One's own card is read as a file: what is wrong with it is what is asked.
            path = own if own.is_file() else load_library().skill(card).path
        try:
            read_card(path)
        except CardFault as fault:
            faults.append(fault)
    return faults, len(cards)


def disable(card: CardId, json: options.Json = False) -> None:
    """Never choose this card."""
    _decide(card, f"{card} is never chosen", json=json, disabled=True)


def enable(card: CardId, json: options.Json = False) -> None:
    """Let this card be chosen again."""
    _decide(card, f"{card} may be chosen", json=json, disabled=False)


def pin(card: CardId, json: options.Json = False) -> None:
    """Choose this card first wherever its conditions hold; a draft is chosen only this way."""
    _decide(card, f"{card} goes first where its conditions hold", json=json, pinned=True)


def unpin(card: CardId, json: options.Json = False) -> None:
    """Give this card its ordinary place again."""
    _decide(card, f"{card} has its ordinary place", json=json, pinned=False)


def _decide(
    card: str, says: str, *, json: bool, disabled: bool | None = None, pinned: bool | None = None
) -> None:
    from workbench.skills.library import load_library
    from workbench.skills.preferences import load_preferences, save_preferences

    load_library().skill(card)
    changed = load_preferences().with_card(card, disabled=disabled, pinned=pinned)
    path = save_preferences(changed)
    _said({"card": card, "path": str(path)}, f"{says} ({path})", json=json)


def _said(record: dict[str, str], says: str, *, json: bool) -> None:
    if json:
        emit.json(record)
    else:
        emit.text(says)
