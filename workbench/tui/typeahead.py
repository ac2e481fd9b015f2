"""Redirects keys that were typed before a dialog opened to that dialog, without deciding anything.

Textual gives a key to the focused widget the moment it arrives. Typed or pasted at once, `r v why`
would all go to the main screen, before `r` has opened the review.
"""

from typing import TypeVar
from weakref import WeakKeyDictionary

from textual import events
from textual.app import App
from textual.screen import Screen

Result = TypeVar("Result")


class TypeAhead(App[Result]):
    """An app that knows on which screen a key was typed."""

    typed_ahead: bool = False
    """Whether the current key was typed before this screen was visible, so that it must not decide
    anything that needs reading first."""

    def __init__(self, *, ansi_color: bool | None = None) -> None:
        super().__init__(ansi_color=ansi_color)
        self._typed_on: WeakKeyDictionary[events.Key, Screen[object]] = WeakKeyDictionary()
        self._ahead: WeakKeyDictionary[events.Key, bool] = WeakKeyDictionary()

    async def on_event(self, event: events.Event) -> None:
        """Note on which screen a key was typed, before the focused widget gets it."""
        if isinstance(event, events.Key) and not event.is_forwarded and self.screen_stack:
            self._typed_on[event] = self.screen
        await super().on_event(event)

    def on_key(self, event: events.Key) -> None:
        """Pass a key whose screen has since been covered to the screen that covers it."""
        if self._typed_on.get(event, self.screen) is self.screen:
            self.typed_ahead = self._ahead.get(event, False)
            return
        event.stop()
        event.prevent_default()
        again = events.Key(event.key, event.character)
        self._ahead[again] = True
        self.post_message(again)


def unread(app: App[object]) -> bool:
    """Whether the current key was typed before the question it would answer was visible."""
    return isinstance(app, TypeAhead) and app.typed_ahead
