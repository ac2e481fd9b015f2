"""Draft cards from recorded sessions, folders or bundles."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from msgspec import structs

from workbench.errors import WorkbenchError
from workbench.lineage.induce import Induced, card_text, induce
from workbench.lineage.instances import by_mechanism, instances
from workbench.session.bundle import recorded
from workbench.skills.card import read_card
from workbench.skills.writing import write_whole


def induced_from(places: Sequence[Path], beside: Sequence[Path] = ()) -> list[Induced]:
    """A card for every mechanism that helped somewhere in these session folders or bundles.

    Steps of the same mechanisms in the sessions `beside` them count for and against the cards, and
    make none of their own. Raises WorkbenchError for what is neither folder nor bundle.
    """
    with ExitStack() as stack:
        opened = [stack.enter_context(recorded(place)) for place in (*places, *beside)]
        ours = {store.settings().name for store in opened[: len(places)]}
        groups = by_mechanism(list(instances(opened)))
    lifted = [group for group in groups.values() if any(one.session in ours for one in group)]
    return [found for group in lifted if (found := induce(group[0].edit, group)) is not None]


def save(found: Induced, folder: Path, *, renew: bool = False) -> Path:
    """Write a draft; a card that is there already keeps its place or, to `renew` it, its trials.

    Raises WorkbenchError when a card of that id is there, or the folder cannot be read or written.
    """
    path = folder / f"{found.card.id}.toml"
    card = found.card
    if renew and path.exists():
        card = structs.replace(card, admission=read_card(path).card.admission)
    elif path.exists():
        raise WorkbenchError(
            f"there is a card {card.id} already",
            where=str(path),
            todo="`--renew` writes it again and keeps its trials; or write to another folder "
            "with --out",
        )
    write_whole(path, card_text(card))
    return path
