"""The last line of the screen: the keys that work here and now."""

from collections.abc import Callable, Sequence

from textual import events
from textual.content import Content
from textual.message import Message

from workbench.tui.draw import Part, cells, line
from workbench.tui.keys import Key, shown
from workbench.tui.panes.base import Lines
from workbench.tui.scene import Scene

Label = Callable[[Key, Scene], str]
"""The label of a key for a scene; empty hides the key."""


class KeyBar(Lines):
    """Keys with labels in the table's order; keys that do not fit are left out, never cut."""

    class Pressed(Message):
        """A key of the bar was clicked."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    def __init__(self, keys: Sequence[Key], label: Label, *, keep: tuple[str, ...]) -> None:
        """`keep` has the ids of keys that are shown however little room there is."""
        super().__init__()
        self._keys = keys
        self._label = label
        self._keep = keep
        self._hits: list[tuple[int, int, str]] = []

    def draw(self, scene: Scene, width: int, height: int) -> list[Content]:  # noqa: ARG002 -- all panes share one signature
        """One line."""
        gap = "  " if width >= 96 else " "
        chosen = fitting(
            [(key, self._label(key, scene)) for key in self._keys], self._keep, width, gap
        )
        parts: list[Part] = []
        self._hits = []
        for key, label in chosen:
            start = cells(parts)
            parts += [(_key(key), f"bold {scene.look.accent}"), (f" {label}", scene.look.muted)]
            self._hits.append((start, cells(parts), key.keys.split(",")[0]))
            parts.append(gap)
        return [line(*parts)]

    def on_click(self, event: events.Click) -> None:
        """Report a click on a key."""
        for start, end, key in self._hits:
            if start <= event.x - self.gutter.left < end:
                self.post_message(self.Pressed(key))


def _key(key: Key) -> str:
    return key.shown or shown(key)


def fitting(
    labelled: Sequence[tuple[Key, str]], keep: tuple[str, ...], width: int, gap: str
) -> list[tuple[Key, str]]:
    """The keys that have a label and fit, in order; those in `keep` always do."""
    offered = [(key, label) for key, label in labelled if label]
    cost = {key.id: len(_key(key)) + 1 + len(label) + len(gap) for key, label in offered}
    room = width + len(gap) - sum(cost.get(name, 0) for name in keep)
    chosen = []
    for key, label in offered:
        if key.id not in keep:
            room -= cost[key.id]
            if room < 0:
                continue
        chosen.append((key, label))
    return chosen
