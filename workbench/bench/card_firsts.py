"""Trials that analysis says are the likeliest to show a gain; a card's own order comes after them.

Compiled code, counted work and times that were read before name a kernel and values for each card
(`card_firsts.toml`, each with its reason), the most promising first.
"""

from collections.abc import Collection
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from workbench.skills.card import Skill
from workbench.skills.records import Parameter

_FILE = Path(__file__).with_name("card_firsts.toml")


class First(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A trial that comes before a card's others."""

    card: str
    problem: str
    state: str
    """A kernel of the problem (`card_states`)."""
    parameters: dict[str, Parameter] = {}
    """Values of the edit; those that are left out are the card's to choose."""
    why: str


class _File(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    first: tuple[First, ...]


@cache
def firsts() -> tuple[First, ...]:
    """All of them, the most promising first."""
    return msgspec.toml.decode(_FILE.read_bytes(), type=_File).first


def firsts_of(cards: Collection[str]) -> tuple[First, ...]:
    """Those of some cards, in order."""
    return tuple(one for one in firsts() if one.card in cards)


def pinned(skill: Skill, first: First) -> Skill:
    """The card with nothing left to choose but what the trial leaves open."""
    values = {name: (value,) for name, value in first.parameters.items()}
    carrier = skill.card.carrier
    narrowed = structs.replace(carrier, grid={**carrier.grid, **values})
    return structs.replace(skill, card=structs.replace(skill.card, carrier=narrowed))
