"""Providers of the command palette: commands of the key table, versions, cards, sessions."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual.command import DiscoveryHit, Hit, Hits, Provider

from workbench.engine.view import Version
from workbench.errors import WorkbenchError
from workbench.tui.board import Board
from workbench.tui.keys import Key, Place, action_of, keys_of, shown
from workbench.tui.look import visible
from workbench.tui.panes.lineage import Lineage
from workbench.tui.panes.version import versus_seed, word
from workbench.tui.scene import rows
from workbench.tui.skin import Skinned

if TYPE_CHECKING:
    from workbench.skills.card import Skill

OFFERED = 30
"""Versions that are offered before anything is typed (ours)."""


class Commands(Provider):
    """Everything that a key of the main screen does."""

    async def discover(self) -> Hits:
        """All of them, before anything is typed."""
        for key in self._all():
            yield DiscoveryHit(
                key.says, partial(self.app.run_action, action_of(key)), help=f"key {shown(key)}"
            )

    async def search(self, query: str) -> Hits:
        """Those whose words match."""
        matcher = self.matcher(query)
        for key in self._all():
            score = matcher.match(f"{key.says} {key.id}")
            if score > 0:
                run = partial(self.app.run_action, action_of(key))
                yield Hit(score, matcher.highlight(key.says), run, help=f"key {shown(key)}")

    def _all(self) -> Iterable[Key]:
        table = skinned(self).settings.keymap.table
        return (key for key in keys_of(table, Place.BOARD) if key.id != "palette")


def skinned(provider: Provider) -> Skinned:
    """The provider's app, which is always one of ours. Raises TypeError for any other."""
    if not isinstance(provider.app, Skinned):
        raise TypeError(f"a palette of {type(provider.app).__name__}")
    return provider.app


class Versions(Provider):
    """All versions, found by number, title, card and outcome."""

    async def search(self, query: str) -> Hits:
        """Those that match."""
        matcher = self.matcher(query)
        for version, text in self._all():
            score = matcher.match(text)
            if score > 0:
                yield Hit(score, matcher.highlight(text), partial(self._pick, version))

    def _all(self) -> list[tuple[Version, str]]:
        board = self.screen
        if not isinstance(board, Board) or board.scene is None:
            return []
        return [(version, _text(version)) for version in rows(board.scene.snapshot)]

    def _pick(self, version: Version) -> None:
        self.app.post_message(Lineage.Picked(version.number))


class Find(Versions):
    """The same, with the newest ones offered before anything is typed."""

    async def discover(self) -> Hits:
        """The newest ones."""
        for version, text in self._all()[:OFFERED]:
            yield DiscoveryHit(text, partial(self._pick, version))


class Elsewhere(Provider):
    """A provider whose entries are read in a thread when the palette opens."""

    def __init__(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 -- Textual's own
        super().__init__(*args, **options)
        self._found: tuple[tuple[str, Callable[[], None]], ...] = ()

    async def startup(self) -> None:
        """Read the entries once; if that fails, the palette works without them."""
        try:
            self._found = tuple(await asyncio.to_thread(self.read))
        except (WorkbenchError, OSError) as fault:
            skinned(self).report(fault)

    def read(self) -> list[tuple[str, Callable[[], None]]]:
        """Entries with their actions; called in a thread. Raises WorkbenchError or OSError."""
        raise NotImplementedError

    async def search(self, query: str) -> Hits:
        """Those that match."""
        matcher = self.matcher(query)
        for text, pick in self._found:
            score = matcher.match(text)
            if score > 0:
                yield Hit(score, matcher.highlight(text), pick)


class OtherSessions(Elsewhere):
    """All sessions; picking one shows it instead."""

    def read(self) -> list[tuple[str, Callable[[], None]]]:
        """Entries by name, state, best and problem."""
        from workbench.engine.sessions import list_sessions

        app = skinned(self)
        return [
            (
                visible(f"session {row.name}  {row.state}  {row.best}  {row.problem}"),
                partial(app.go_to, Path(row.path)),
            )
            for row in list_sessions(app.folder)
        ]


class Cards(Elsewhere):
    """All skill cards; picking one shows it."""

    def read(self) -> list[tuple[str, Callable[[], None]]]:
        """Entries by id and title."""
        return [
            (visible(f"card {skill.card.id}  {skill.card.title}"), partial(self._show, skill, said))
            for skill, said in _cards()
        ]

    def _show(self, skill: "Skill", said: str) -> None:
        from workbench.tui.dialogs.skill_card import card_box

        app = skinned(self)
        app.push_screen(card_box(skill, said, app.scene))


def _cards() -> Iterator[tuple["Skill", str]]:
    # Imported when needed, so that the first frame does not wait for it.
    from workbench.skills.library import load_library

    library = load_library()
    return ((skill, library.decided(skill.card.id)) for skill in library.skills.values())


def _text(version: Version) -> str:
    said = word(version).long
    words = (f"v{version.number}", versus_seed(version), version.title, version.card, said)
    return visible("  ".join(word for word in words if word))
