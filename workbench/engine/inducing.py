"""Draft cards from recorded sessions, folders or bundles, with an account of every transition."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from workbench.errors import WorkbenchError
from workbench.lineage.induce import Induced, card_text, induce
from workbench.lineage.instances import Instance, LeftOut, accounted, by_mechanism
from workbench.session.bundle import recorded
from workbench.skills.card import read_card
from workbench.skills.writing import write_whole

ACCOUNT = "induced.jsonl"
"""The file beside written drafts that says what became of every transition."""


class Lifted(Struct, frozen=True, kw_only=True):
    """The cards of some sessions, and every transition that is in none of them."""

    cards: tuple[Induced, ...]
    left_out: tuple[LeftOut, ...]
    """By session and number."""


class Row(Struct, frozen=True, kw_only=True):
    """What became of one transition."""

    session: str
    number: int
    card: str = ""
    """The card that it is in; empty where it is left out."""
    says: str
    """As what it is in the card, or why it is in none."""


def induced_from(places: Sequence[Path], beside: Sequence[Path] = ()) -> Lifted:
    """A card for every mechanism that helped somewhere in these session folders or bundles.

    Steps of the same mechanisms in the sessions `beside` them count for and against the cards, and
    make none of their own. Raises WorkbenchError for what is neither folder nor bundle.
    """
    with ExitStack() as stack:
        opened = [stack.enter_context(recorded(place)) for place in (*places, *beside)]
        ours = {store.settings().name for store in opened[: len(places)]}
        told = list(accounted(opened))
    left_out = [one for one in told if isinstance(one, LeftOut)]
    cards: list[Induced] = []
    for group in by_mechanism([one for one in told if isinstance(one, Instance)]).values():
        mine = any(one.session in ours for one in group)
        found = induce(group[0].edit, group) if mine else None
        if found is not None:
            cards.append(found)
        else:
            left_out += _in_no_card(group, mine=mine)
    left_out.sort(key=lambda one: (one.session, one.number))
    return Lifted(cards=tuple(cards), left_out=tuple(left_out))


def _in_no_card(group: Sequence[Instance], *, mine: bool) -> Iterator[LeftOut]:
    for one in group:
        why = f"no step of {one.feature} was kept and faster"
        if not mine:
            why = f"{one.feature} is in none of the sessions that cards are lifted from"
        elif one.removal:
            why = f"it was not taken out of {one.kernel}, and no card is of {one.feature} alone"
        says = f"{why}: {one.says}"
        yield LeftOut(session=one.session, number=one.number, says=says)


def rows(lifted: Lifted) -> list[Row]:
    """The account of every transition, by session and number."""
    found = [Row(session=one.session, number=one.number, says=one.says) for one in lifted.left_out]
    for made in lifted.cards:
        found += [
            Row(session=one.session, number=one.number, card=made.card.id, says=_part(one))
            for one in made.group
        ]
    return sorted(found, key=lambda row: (row.session, row.number))


def _part(one: Instance) -> str:
    if one.removal:
        return "a risk: the kernel did without it no better"
    return "for it" if one.helped else "against it"


def told(left_out: Sequence[LeftOut]) -> Iterator[str]:
    """A line for each session and reason: `left out: v3, v5 of gemm-1: it has no plan`."""
    by_reason = sorted(left_out, key=lambda one: (one.session, one.says, one.number))
    for (session, says), group in groupby(by_reason, key=lambda one: (one.session, one.says)):
        numbers = ", ".join(f"v{one.number}" for one in group)
        yield f"left out: {numbers} of {session}: {says}"


def keep_account(lifted: Lifted, folder: Path) -> Path:
    """Write what became of every transition beside the drafts; an older account is replaced."""
    path = folder / ACCOUNT
    write_whole(path, b"".join(msgspec.json.encode(row) + b"\n" for row in rows(lifted)).decode())
    return path


def save(found: Induced, folder: Path, *, renew: bool = False) -> Path:
    """Write a draft; a card that is there already keeps its place or, to `renew` it, its trials
    and the risks that were seen in them.

    Raises WorkbenchError when a card of that id is there, or the folder cannot be read or written.
    """
    path = folder / f"{found.card.id}.toml"
    card = found.card
    if renew and path.exists():
        old = read_card(path).card
        met = [r for r in old.risk if any(t.session and t.session in r.seen for t in old.admission)]
        card = structs.replace(card, admission=old.admission, risk=(*card.risk, *met))
    elif path.exists():
        raise WorkbenchError(
            f"there is a card {card.id} already",
            where=str(path),
            todo="`--renew` writes it again and keeps its trials; or write to another folder "
            "with --out",
        )
    write_whole(path, card_text(card))
    return path
