"""What the command palette finds: every command of the key table, and every version."""

from collections.abc import Iterable
from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider

from workbench.engine.view import Version
from workbench.tui.board import Board
from workbench.tui.keys import KEYS, Key, Place, action_of, heard, shown
from workbench.tui.look import visible
from workbench.tui.panes.lineage import Lineage
from workbench.tui.panes.version import times, word
from workbench.tui.scene import rows


class Commands(Provider):
    """Everything a key of the main screen does."""

    async def discover(self) -> Hits:
        """All of them, before anything is typed."""
        for key in _commands():
            yield DiscoveryHit(
                key.says, partial(self.app.run_action, action_of(key)), help=f"key {shown(key)}"
            )

    async def search(self, query: str) -> Hits:
        """Those whose words match."""
        matcher = self.matcher(query)
        for key in _commands():
            score = matcher.match(f"{key.says} {key.id}")
            if score > 0:
                run = partial(self.app.run_action, action_of(key))
                yield Hit(score, matcher.highlight(key.says), run, help=f"key {shown(key)}")


def _commands() -> Iterable[Key]:
    return (key for key in heard(KEYS, Place.BOARD) if key.id != "palette")


class Versions(Provider):
    """Every version by number, title, card and what became of it."""

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
        for version, text in self._all()[:30]:
            yield DiscoveryHit(text, partial(self._pick, version))


def _text(version: Version) -> str:
    said = word(version).long
    words = (f"v{version.number}", times(version.speed_vs_seed), version.title, version.card, said)
    return visible("  ".join(word for word in words if word))
