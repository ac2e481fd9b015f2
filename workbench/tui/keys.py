"""All keys of the screen in one table; bindings, key bar, help and palette are made from it."""

import difflib
from collections.abc import Iterable, Mapping
from enum import StrEnum

from msgspec import Struct, structs
from textual.binding import Binding, BindingType
from textual.keys import Keys


class Place(StrEnum):
    """Where a key works."""

    BOARD = "board"
    """The main screen, whichever pane has the focus."""
    LINEAGE = "lineage"
    PANE = "pane"
    """Any other pane of the main screen."""
    DIFF = "diff"
    """Any view of a diff."""
    REVIEW = "review"
    COMPARE = "compare"
    LIST = "list"
    """Any list with a selection."""
    LISTED = "listed"
    """A screen that consists of one list."""
    SESSIONS = "sessions"
    SKILLS = "skills"
    NEXT = "next"
    TEXT = "text"
    """A dialog with scrolling text: help, log."""


TOGETHER = (
    frozenset({Place.BOARD, Place.LINEAGE}),
    frozenset({Place.BOARD, Place.PANE}),
    frozenset({Place.REVIEW, Place.DIFF}),
    frozenset({Place.COMPARE, Place.DIFF}),
    frozenset({Place.LIST, Place.LISTED, Place.SESSIONS}),
    frozenset({Place.LIST, Place.LISTED, Place.SKILLS}),
    frozenset({Place.LIST, Place.LISTED, Place.NEXT}),
    frozenset({Place.COMPARE, Place.LIST}),
    frozenset({Place.TEXT}),
)
"""Places whose keys work at the same time, so that a key must have one meaning in all of them."""


class Key(Struct, frozen=True, kw_only=True):
    """What a key, or one of several keys, does."""

    id: str
    """Its name in `[keys]` of `config.toml`."""
    keys: str
    """Textual's names of the keys, comma-separated; the first one is shown."""
    group: str
    """Its heading in the help."""
    says: str
    """Its text in help and palette; adjacent keys with the same text share a row of the help."""
    places: tuple[Place, ...] = (Place.BOARD,)
    action: str = ""
    """The Textual action; when empty, the id with underscores."""
    label: str = ""
    """Its label in the key bar; without one it is left out."""
    shown: str = ""
    """Shown in the key bar instead of the first key, unless the user has rebound it."""


_MOVES = (Place.LINEAGE, Place.PANE, Place.DIFF, Place.LIST, Place.TEXT)
_PAGES = (Place.LINEAGE, Place.DIFF, Place.LIST, Place.TEXT)

KEYS: tuple[Key, ...] = (
    Key(id="review", keys="r", group="Decide", label="Review",
        says="review the step that waits for your decision"),
    Key(id="accept", keys="a", group="Decide", label="Accept", places=(Place.REVIEW,),
        says="accept the version on screen: main moves to it"),
    Key(id="veto", keys="v", group="Decide", label="Veto…", places=(Place.REVIEW,),
        says="veto, with a reason that the next step reads"),
    Key(id="scope", keys="A", group="Decide", places=(Place.REVIEW,),
        says="accept this and the card's later steps until a gate fails (asks)"),
    Key(id="edit", keys="E", group="Decide", label="Edit", places=(Place.REVIEW,),
        says="edit it in $EDITOR: your version is gated next, this one vetoed (asks)"),
    Key(id="end-scope", keys="A", group="Decide",
        says="ask about every step again"),
    Key(id="why", keys="e", group="Decide", label="Why", places=(Place.BOARD, Place.REVIEW),
        says="why this step: what the policy saw and how it chose"),
    Key(id="later", keys="escape,q", group="Decide", label="Later", places=(Place.REVIEW,),
        says="close the review; the step keeps waiting"),
    Key(id="pause", keys="space", group="Run", label="Pause",
        says="pause after the running step, or go on; starts a saved session's engine"),
    Key(id="stop", keys="x", group="Run", says="end the run after the running step (asks)"),
    Key(id="next-step", keys="c", group="Run", says="choose the next step: a card, or your plan"),
    Key(id="hint", keys="H", group="Run", says="hint: every later prompt of a model includes it"),
    Key(id="undo", keys="u", group="Run",
        says="undo the last accepted step: main moves back (asks)"),
    Key(id="branch", keys="b", group="Run",
        says="branch: go on from the selected version (asks)"),
    Key(id="diff", keys="d", group="Look", label="Diff",
        says="diff of the selected version against its parent"),
    Key(id="mark", keys="m", group="Look", says="mark the selected version, or unmark it"),
    Key(id="compare", keys="D", group="Look",
        says="compare the selected version with the marked one"),
    Key(id="find", keys="/", group="Look", label="Find", says="find a version"),
    Key(id="thoughts", keys="T", group="Look", says="what the model says, as it streams"),
    Key(id="log", keys="l", group="Look", says="log of events"),
    Key(id="zoom", keys="z", group="Look", label="Zoom", says="zoom the focused pane"),
    Key(id="pane-1", keys="1", group="Look", says="focus a pane", action="focus_pane(1)",
        label="Panes", shown="1-5"),
    *(Key(id=f"pane-{number}", keys=str(number), group="Look", says="focus a pane",
          action=f"focus_pane({number})") for number in (2, 3, 4, 5)),
    Key(id="view-source", keys="1", group="Look", label="Source", places=(Place.COMPARE,),
        says="source, profile or generated code", action="view('source')"),
    Key(id="view-profile", keys="2", group="Look", label="Profile", places=(Place.COMPARE,),
        says="source, profile or generated code", action="view('profile')"),
    *(Key(id=f"view-{level}", keys=str(key), group="Look", label=level.upper(),
          places=(Place.COMPARE,), says="source, profile or generated code",
          action=f"view('{level}')") for key, level in enumerate(("ttgir", "ptx", "sass"), 3)),
    Key(id="code-again", keys="c", group="Look", label="Compile", places=(Place.COMPARE,),
        says="compile generated code that was not kept, on this machine"),
    Key(id="next-pane", keys="tab", group="Look", says="next, previous pane",
        action="app.focus_next"),
    Key(id="previous-pane", keys="shift+tab", group="Look", says="next, previous pane",
        action="app.focus_previous"),
    Key(id="split", keys="s", group="Look", label="Split", places=(Place.DIFF,),
        says="both sides side by side, or one column"),
    Key(id="whole", keys="w", group="Look", label="Whole file", places=(Place.DIFF,),
        says="the whole file, or the changes with three lines of context"),
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
        says="newer, older accepted version"),
    Key(id="older-kept", keys="]", group="Move", places=(Place.LINEAGE,),
        says="newer, older accepted version"),
    Key(id="sessions", keys="o", group="App", label="Sessions",
        says="every session: open, start, rename, export"),
    Key(id="skills", keys="S", group="App", says="skills: read, edit, disable, pin"),
    Key(id="copy", keys="y", group="App", places=(Place.BOARD, Place.REVIEW),
        says="copy what is in focus: commit, pane or diff"),
    Key(id="act", keys="enter", group="List", label="Open", places=(Place.LISTED,),
        says="open the selected one"),
    Key(id="resume", keys="r", group="List", label="Go on", places=(Place.SESSIONS,),
        says="go on with it: starts its engine"),
    Key(id="new", keys="n", group="List", label="New run", places=(Place.SESSIONS,),
        says="start a run"),
    Key(id="rename", keys="R", group="List", label="Rename", places=(Place.SESSIONS,),
        says="give it another name"),
    Key(id="archive", keys="a", group="List", label="Put aside", places=(Place.SESSIONS,),
        says="put it aside, or bring it back"),
    Key(id="aside", keys="h", group="List", places=(Place.SESSIONS,),
        says="show or hide the sessions that were put aside"),
    Key(id="export", keys="x", group="List", label="Export", places=(Place.SESSIONS,),
        says="export it into one file, a git bundle"),
    Key(id="import", keys="i", group="List", label="Import", places=(Place.SESSIONS,),
        says="import a bundle as a session"),
    Key(id="delete", keys="X", group="List", label="Delete…", places=(Place.SESSIONS,),
        says="delete it for good (asks)"),
    Key(id="session-skills", keys="S", group="List", label="Skills", places=(Place.SESSIONS,),
        says="the skills that steps are made from", action="skills"),
    Key(id="edit-card", keys="e", group="List", label="Edit", places=(Place.SKILLS,),
        says="edit it in $EDITOR; a shipped card is copied to your folder first", action="edit"),
    Key(id="disable", keys="d", group="List", label="Disable", places=(Place.SKILLS,),
        says="never choose it, or allow it again"),
    Key(id="pin", keys="p", group="List", label="Pin", places=(Place.SKILLS,),
        says="choose it first where its conditions hold, or no longer"),
    Key(id="choose-this", keys="c", group="List", label="Choose", says="make it the next step",
        places=(Place.NEXT,)),
    Key(id="plan", keys="p", group="List", label="Plan…", places=(Place.NEXT,),
        says="the same, but planned in your words: a model carries it out"),
    Key(id="drop", keys="d", group="List", label="Drop", places=(Place.NEXT,),
        says="take back what was chosen: the run chooses by itself"),
    Key(id="filter", keys="/", group="List", label="Filter", places=(Place.LISTED,),
        says="show only rows that contain some words"),
    Key(id="list-back", keys="escape,q", group="List", label="Back", places=(Place.LISTED,),
        says="back to where you were", action="back"),
    Key(id="theme", keys="t", group="App", says="choose a theme"),
    Key(id="palette", keys="ctrl+p", group="App", says="find a command, version, card or session"),
    Key(id="help", keys="?", group="App", label="Help",
        places=(Place.BOARD, Place.REVIEW, Place.COMPARE, Place.LISTED),
        says="the keys that work here"),
    Key(id="suspend", keys="ctrl+z", group="App", action="app.suspend_process",
        says="back to the shell; fg returns"),
    Key(id="leave", keys="q,ctrl+c", group="App", label="Leave",
        says="leave the screen; the run goes on"),
    Key(id="back", keys="escape,q", group="App", label="Close", places=(Place.COMPARE,),
        says="back to the main screen"),
    Key(id="close", keys="escape,q,?", group="App", places=(Place.TEXT,), says="close"),
)  # fmt: skip


def action_of(key: Key) -> str:
    """The Textual action that the key runs."""
    return key.action or key.id.replace("-", "_")


def bindings(*places: Place) -> list[BindingType]:
    """Textual bindings of the keys that work in these places."""
    return [
        Binding(key.keys, action_of(key), key.says, show=False, id=key.id)
        for key in KEYS
        if any(place in key.places for place in places)
    ]


def keys_of(table: Iterable[Key], *places: Place) -> list[Key]:
    """The keys of a table that work in any of these places, in the table's order."""
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
    found = {name: _unknown(name, keys, by_id) for name, keys in wanted.items()}
    faults = [fault for fault in found.values() if fault]
    overrides = {name: keys for name, keys in wanted.items() if not found[name]}
    # All at once, so that two keys may change places; one that is left out has its own key again,
    # which may be in the way of another.
    while True:
        table = dict(by_id)
        for name, keys in overrides.items():
            table[name] = structs.replace(by_id[name], keys=keys, shown="")
        clashes = {name: _conflict(table[name], table) for name in reversed(overrides)}
        last = next((name for name, fault in clashes.items() if fault), None)
        if last is None:
            return Keymap(table=tuple(table.values()), overrides=overrides, faults=tuple(faults))
        faults.append(clashes[last])
        del overrides[last]


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
        if other.id != new.id and both and _both_work(new, other):
            return f"{new.id}: {both.pop()!r} is {other.id} already"
    return ""


def _both_work(one: Key, other: Key) -> bool:
    return any(places & set(one.places) and places & set(other.places) for places in TOGETHER)


def _each(keys: str) -> list[str]:
    return [key.strip() for key in keys.split(",") if key.strip()]


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'review'?`, or nothing when no name comes near."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


_KEY_NAMES = frozenset(key.value for key in Keys) | {"space"}
