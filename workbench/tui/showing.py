"""Follows a session and passes what arrives to the screens as scenes."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, cast

from textual.screen import Screen
from textual.timer import Timer

from workbench.engine.view import Snapshot
from workbench.errors import WorkbenchError
from workbench.session.records import Answer
from workbench.tui.board import Board
from workbench.tui.dialogs.following import Following
from workbench.tui.diff.highlight import warm
from workbench.tui.feed import Client, follow
from workbench.tui.moments import Moments
from workbench.tui.panes.lineage import Lineage
from workbench.tui.scene import Scene, outline
from workbench.tui.scope import Scope, covered, ended
from workbench.tui.settings import Settings
from workbench.tui.skin import Skinned
from workbench.tui.theme import Themes

_SETTLE_SECONDS = 0.05
"""How long the selection must be at rest before its record is read: while a key is held down, none
is."""


class Showing(Skinned):
    """An app that follows one session; subclasses add the keys."""

    def __init__(
        self,
        client: Client,
        *,
        settings: Settings | None = None,
        themes: Themes | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(settings, themes)
        self._client = client
        self._moments = Moments(client, clock)
        self._scene = Scene(snapshot=self._moments.snapshot)
        self._meter: Timer | None = None
        self._rest: Timer | None = None
        """Fires when the selection has been at rest for `_SETTLE_SECONDS`."""

    def get_default_screen(self) -> Screen[None]:
        """The main screen."""
        return Board(self.settings.keymap.table)

    @property
    def board(self) -> Board:
        """The main screen, whatever lies over it."""
        return cast("Board", self.screen_stack[0])

    @property
    def scene(self) -> Scene:
        """What is shown now."""
        return self._scene

    def on_mount(self) -> None:
        """Draw the first scene, then follow the session."""
        self.dress()
        self._meter = self.set_interval(1.0, self._show, pause=True)
        self._arrive(self._client.snapshot())
        self.connect()
        self.theme_changed_signal.subscribe(self, lambda _: self._show())
        self.call_after_refresh(self._settle)

    def connect(self) -> None:
        """Follow the session from now on; also after the feed broke."""
        self._moments.trouble = ""
        hz = self.settings.tui.refresh_hz
        feed = follow(self._client, self._arrive, self._lose, hz)
        self.run_worker(feed, group="feed", exclusive=True)

    def _settle(self) -> None:
        """Do what can wait until the first frame is painted."""
        self.run_worker(asyncio.to_thread(warm), group="warm")
        self.tell_faults()

    # -- news -----------------------------------------------------------------------------------

    def _arrive(self, snapshot: Snapshot) -> None:
        for news in self._moments.arrive(snapshot):
            self.notify(
                news.says,
                severity="error" if news.level == "error" else "warning",
                timeout=10,
                markup=False,
            )
        self._follow_scope(snapshot)
        self._show()
        if self._meter is not None:
            (self._meter.resume if self._scene.working else self._meter.pause)()

    def _lose(self, why: str) -> None:
        self._moments.trouble = f"no more news of the session: {why}"
        self._show()

    def _show(self) -> None:
        """Pass the current scene to every screen that draws one, and read records it lacks."""
        if not self.screen_stack:  # news may arrive while the screen closes
            return
        before = self._scene
        self._scene = self._moments.scene(self.look)
        # A change under a dialog repaints the dialog too, so meters wait until it closes.
        if self.screen is self.board or outline(before) != outline(self._scene):
            self.board.show_scene(self._scene)
        for screen in self.screen_stack[1:]:
            if isinstance(screen, Following) and screen.is_mounted:
                screen.show_scene(self._scene)
        if self._scene.reading:
            if self._rest is not None:
                self._rest.stop()
            self._rest = self.set_timer(_SETTLE_SECONDS, self._rested)

    def _rested(self) -> None:
        self.run_worker(self._read(), group="read", exclusive=True)

    async def _read(self) -> None:
        try:
            await self._moments.read()
        except (WorkbenchError, OSError) as fault:
            self.report(fault)
        else:
            self._show()

    def on_board_uncovered(self) -> None:
        """A dialog closed: bring the meters up to date."""
        self._show()

    def on_lineage_picked(self, event: Lineage.Picked) -> None:
        """Select another version."""
        self._moments.pick(event.number)
        self._show()

    # -- wishes ---------------------------------------------------------------------------------

    def wish(self, wish: Coroutine[Any, Any, str]) -> None:
        """Send a wish to the engine, and show its answer or refusal."""

        async def ask() -> None:
            try:
                says = await wish
            except (WorkbenchError, OSError) as fault:
                self.report(fault)
            else:
                self.notify(says, markup=False)

        self.run_worker(ask(), group="wish")

    def widen(self, scope: Scope | None) -> None:
        """Accept a card's steps from now on, or ask about every step again."""
        self._moments.scope = scope
        self._show()

    def _follow_scope(self, snapshot: Snapshot) -> None:
        """Accept a waiting version that the scope covers, and drop a scope that has ended."""
        scope = self._moments.scope
        if scope is None:
            return
        why = ended(scope, snapshot)
        number = covered(scope, snapshot)
        if why:
            self._moments.scope = None
            says = f"{scope.card} is asked about again: {why}"
            self.notify(says, severity="warning", timeout=10, markup=False)
        elif number is not None:
            # The engine would refuse a second answer for the same version, and an error be shown.
            self._moments.scope = Scope(card=scope.card, since=number)
            self.wish(self._client.decide(number, Answer.ACCEPTED, scope.reason))
