"""Every key of the screen in one table, from which bindings, bar, help and palette are made."""

import difflib
from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct, structs
from textual.binding import Binding, BindingType
from textual.keys import Keys


class Place(StrEnum):
    """Where a key is heard."""

    BOARD = "board"
    """The main screen, whatever pane has the focus."""
    LINEAGE = "lineage"
    PANE = "pane"
    """Any other pane of the main screen."""
    DIFF = "diff"
    """Wherever a diff is shown."""
    REVIEW = "review"
    TEXT = "text"
    """A dialog of text that scrolls: help, log."""


TOGETHER = (
    frozenset({Place.BOARD, Place.LINEAGE}),
    frozenset({Place.BOARD, Place.PANE}),
    frozenset({Place.REVIEW, Place.DIFF}),
    frozenset({Place.TEXT}),
)
"""Places whose keys are heard at the same time, so that one key may mean one thing only."""


class Key(Struct, frozen=True, kw_only=True):
    """One thing that a key does."""

    id: str
    """Name in `[keys]` of `config.toml`."""
    keys: str
    """Comma-separated; the first is the one shown."""
    group: str
    says: str
    """For help and palette. Neighbours that say the same share one row of the help."""
    places: tuple[Place, ...] = (Place.BOARD,)
    action: str = ""
    """Textual action; the id with underscores when empty."""
    label: str = ""
    """In the key bar; empty keeps it out."""
    shown: str = ""
    """In the key bar instead of the first key, while nobody has bound it anew."""


_MOVES = (Place.LINEAGE, Place.PANE, Place.DIFF, Place.TEXT)
_PAGES = (Place.LINEAGE, Place.DIFF, Place.TEXT)

KEYS: tuple[Key, ...] = (
    Key(id="review", keys="r", group="Decide", label="Review",
        says="open the review of the step that waits"),
    Key(id="accept", keys="a", group="Decide", label="Accept", places=(Place.REVIEW,),
        says="accept what is on screen: main moves to it"),
    Key(id="veto", keys="v", group="Decide", label="Veto…", places=(Place.REVIEW,),
        says="veto, with a reason that the next step reads"),
    Key(id="scope", keys="A", group="Decide", places=(Place.REVIEW,),
        says="accept, and this card's coming steps until a gate fails (asks)"),
    Key(id="end-scope", keys="A", group="Decide",
        says="ask about every step again"),
    Key(id="why", keys="e", group="Decide", label="Why", places=(Place.BOARD, Place.REVIEW),
        says="why this step: what the policy saw and how it chose"),
    Key(id="later", keys="escape,q", group="Decide", label="Later", places=(Place.REVIEW,),
        says="close the review; the step goes on waiting"),
    Key(id="pause", keys="space", group="Run", label="Pause",
        says="pause after the running step, or go on"),
    Key(id="stop", keys="x", group="Run", says="end the run after the running step (asks)"),
    Key(id="diff", keys="d", group="Look", label="Diff",
        says="diff of the selected version against its parent"),
    Key(id="find", keys="/", group="Look", label="Find", says="find a version"),
    Key(id="log", keys="l", group="Look", says="log of events"),
    Key(id="zoom", keys="z", group="Look", label="Zoom", says="zoom the focused pane"),
    Key(id="pane-1", keys="1", group="Look", says="focus a pane", action="focus_pane(1)",
        label="Panes", shown="1-5"),
    *(Key(id=f"pane-{number}", keys=str(number), group="Look", says="focus a pane",
          action=f"focus_pane({number})") for number in (2, 3, 4, 5)),
    Key(id="next-pane", keys="tab", group="Look", says="next, previous pane",
        action="app.focus_next"),
    Key(id="previous-pane", keys="shift+tab", group="Look", says="next, previous pane",
        action="app.focus_previous"),
    Key(id="split", keys="s", group="Look", label="Split", places=(Place.DIFF,),
        says="both sides, or one above the other"),
    Key(id="whole", keys="w", group="Look", label="Whole file", places=(Place.DIFF,),
        says="the whole file, or the changes with three lines around them"),
    Key(id="next-hunk", keys="n", group="Move", label="Next", places=(Place.DIFF,),
        says="next, previous change"),
    Key(id="previous-hunk", keys="p", group="Move", places=(Place.DIFF,),
        says="next, previous change"),
    Key(id="down", keys="j,down", group="Move", places=_MOVES, says="down, up"),
    Key(id="up", keys="k,up", group="Move", places=_MOVES, says="down, up"),
    Key(id="page-down", keys="pagedown,ctrl+d", group="Move", places=_PAGES,
        says="a page down, up"),
    Key(id="page-up", keys="pageup,ctrl+u", group="Move", places=_PAGES,
        says="a page down, up"),
    Key(id="first", keys="g,home", group="Move", places=_MOVES, says="first, last"),
    Key(id="last", keys="G,end", group="Move", places=_MOVES, says="first, last"),
    Key(id="newer-kept", keys="[", group="Move", places=(Place.LINEAGE,),
        says="newer, older version that was kept"),
    Key(id="older-kept", keys="]", group="Move", places=(Place.LINEAGE,),
        says="newer, older version that was kept"),
    Key(id="copy", keys="y", group="App", places=(Place.BOARD, Place.REVIEW),
        says="copy what is in focus: commit, pane or diff"),
    Key(id="theme", keys="t", group="App", says="choose a theme"),
    Key(id="palette", keys="ctrl+p", group="App", says="every command and version"),
    Key(id="help", keys="?", group="App", label="Help",
        places=(Place.BOARD, Place.REVIEW), says="the keys of where you are"),
    Key(id="suspend", keys="ctrl+z", group="App", action="app.suspend_process",
        says="back to the shell; fg returns"),
    Key(id="leave", keys="q,ctrl+c", group="App", label="Leave",
        says="leave the screen; the run goes on"),
    Key(id="close", keys="escape,q,?", group="App", places=(Place.TEXT,), says="close"),
)  # fmt: skip


def action_of(key: Key) -> str:
    """The Textual action that the key runs."""
    return key.action or key.id.replace("-", "_")


def bindings(*places: Place) -> list[BindingType]:
    """Textual bindings of the keys heard in these places; our own bar draws them."""
    return [
        Binding(key.keys, action_of(key), key.says, show=False, id=key.id)
        for key in KEYS
        if any(place in key.places for place in places)
    ]


def heard(table: Iterable[Key], *places: Place) -> list[Key]:
    """The keys of a table that are heard in any of these places, in the table's order."""
    return [key for key in table if any(place in key.places for place in places)]


_SHOWN = {"escape": "esc", "pagedown": "pgdn", "pageup": "pgup", "question_mark": "?"}


def shown(key: Key) -> str:
    """The key as a person reads it: `esc`, `pgdn`, `?`."""
    first = key.keys.split(",")[0].strip()
    return _SHOWN.get(first, first)


def shown_by_id(table: Iterable[Key], name: str) -> str:
    """The key of an id as a person reads it. KeyError when there is no such id."""
    for key in table:
        if key.id == name:
            return shown(key)
    raise KeyError(name)


class Keymap(Struct, frozen=True, kw_only=True):
    """The table with a person's overrides, what to hand to Textual, and what was refused."""

    table: tuple[Key, ...]
    overrides: dict[str, str]
    faults: tuple[str, ...]


def keymap(wanted: Mapping[str, str]) -> Keymap:
    """Apply `[keys]` of `config.toml`; unknown ids, unknown keys and conflicts are left out.

    Each fault says which entry was left out and why, with the nearest name for a wrong one.
    """
    by_id = {key.id: key for key in KEYS}
    table = dict(by_id)
    overrides: dict[str, str] = {}
    faults: list[str] = []
    for name, keys in wanted.items():
        fault = _unknown(name, keys, by_id)
        if not fault:
            new = structs.replace(by_id[name], keys=keys, shown="")
            fault = _conflict(new, table)
        if fault:
            faults.append(fault)
            continue
        table[name] = new
        overrides[name] = keys
    return Keymap(table=tuple(table.values()), overrides=overrides, faults=tuple(faults))


def _unknown(name: str, keys: str, known: Mapping[str, Key]) -> str:
    if name not in known:
        return f"no key id {name!r}{nearest(name, known)}"
    for key in _each(keys):
        last = key.rsplit("+", 1)[-1] if len(key) > 1 else key
        if len(last) != 1 and last not in _KEY_NAMES:
            return f"{name}: no key {key!r}{nearest(last, _KEY_NAMES)}"
    return "" if _each(keys) else f"{name}: no key given"


def _conflict(new: Key, table: Mapping[str, Key]) -> str:
    for other in table.values():
        both = set(_each(new.keys)) & set(_each(other.keys))
        if other.id != new.id and both and _heard_together(new, other):
            return f"{new.id}: {both.pop()!r} is {other.id} already"
    return ""


def _heard_together(one: Key, other: Key) -> bool:
    return any(places & set(one.places) and places & set(other.places) for places in TOGETHER)


def _each(keys: str) -> list[str]:
    return [key.strip() for key in keys.split(",") if key.strip()]


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'review'?`, or nothing when no name comes near."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


_KEY_NAMES = frozenset(key.value for key in Keys) | {"space"}
