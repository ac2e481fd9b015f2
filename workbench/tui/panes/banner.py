"""A banner under the gate strip that says why a session is not running, and what to do."""

from msgspec import Struct
from textual.content import Content

from workbench.engine.view import Snapshot, State, unwritten_lines
from workbench.tui.draw import Part, cells, fit, line, wrapped
from workbench.tui.keys import Key, shown_by_id
from workbench.tui.panes.base import Lines
from workbench.tui.scene import Scene


class Banner(Lines):
    """The banner; hidden while there is nothing to say."""

    def __init__(self, table: tuple[Key, ...]) -> None:
        super().__init__()
        self._table = table

    def show_scene(self, scene: Scene) -> None:
        """Show or hide the banner, as high as its message needs."""
        self.set_class(message(scene) is not None, "shown")
        before = self.scene
        super().show_scene(scene)
        if before is None or message(before) != message(scene):
            self.refresh(layout=True)

    def draw(self, scene: Scene, width: int, height: int) -> list[Content]:  # noqa: ARG002 -- all panes share one signature
        """The message, cut to a few lines, followed by the keys."""
        found = message(scene)
        if found is None or width <= 0:
            return []
        look = scene.look
        tail: list[Part] = []
        for name, says in found.keys:
            key = shown_by_id(self._table, name)
            tail += [("  ", ""), (key, f"bold {look.accent}"), (f" {says}", look.muted)]
        lines = wrapped(found.text, width)
        if cells([lines[-1]]) + cells(tail) > width:
            lines.append("")
        if len(lines) > _LINES:
            room = width - cells(tail)
            lines = [*lines[: _LINES - 1], fit(" ".join(lines[_LINES - 1 :]), room)]
        return [
            *(line((text, found.style)) for text in lines[:-1]),
            line((lines[-1], found.style), *(tail if lines[-1] else tail[1:])),
        ]


_BOTTOM = {
    "naive": "the naive kernel",
    "start": "where the walk was ended, not naive yet",
}
_LINES = 3
"""Most lines of a message; the log has all of it."""
Keys = tuple[tuple[str, str], ...]
"""Ids of keys, each with its label."""
_RESUME: Keys = (("log", "log"), ("pause", "go on"))
_LOST_FEED: Keys = (("log", "log"), ("pause", "connect again"))
_MORE: Keys = (("pause", "go on with more"), ("sessions", "sessions"))
_LOG: Keys = (("log", "log"),)
_GO: Keys = (("pause", "go on"), ("stop", "stop"))

_SAYS: dict[State, tuple[str, Keys]] = {
    State.FAILED: ("✗ the engine failed", _RESUME),
    State.LOST: ("✗ the engine died", _RESUME),
    State.STOPPED: ("stopped", _RESUME),
    State.SAVED: ("saved session, no engine runs", _RESUME),
    State.PAUSED: ("paused", _GO),
    State.BUDGET: ("the budget is spent", _MORE),
    State.FINISHED: ("✓ finished", _MORE),
}


class Message(Struct, frozen=True):
    """What the banner says."""

    text: str
    style: str
    keys: Keys


def message(scene: Scene) -> Message | None:
    """The message for a scene; None when there is nothing to say."""
    snapshot, look = scene.snapshot, scene.look
    if scene.trouble:
        return Message(f"✗ {scene.trouble}", f"bold {look.bad}", _LOST_FEED)
    unread = _unread(snapshot)
    if snapshot.kind == "lineage" and snapshot.state is State.SAVED:
        says = f"an expert taken apart: on top the expert, below {_BOTTOM[snapshot.bottom]}"
        if not snapshot.versions:
            says = " ".join(unwritten_lines(snapshot)) or "a lineage, and its walk has not ended"
        says += f"; {unread}" if unread else ""
        return Message(says, look.muted, (("diff", "one mechanism"), ("sessions", "sessions")))
    if snapshot.state not in _SAYS:
        return Message(unread, f"bold {look.warn}", _LOG) if unread else None
    text, keys = _SAYS[snapshot.state]
    styles = {
        State.FAILED: f"bold {look.bad}",
        State.LOST: f"bold {look.bad}",
        State.BUDGET: look.warn,
        State.FINISHED: look.good,
    }
    says = f": {snapshot.says}" if snapshot.says else ""
    if snapshot.pending is not None and scene.resumable:
        says += f"; v{snapshot.pending} waits for your decision"
    says += f"; {unread}" if unread else ""
    return Message(text + says, styles.get(snapshot.state, look.muted), keys)


def _unread(snapshot: Snapshot) -> str:
    """The first part of the session that cannot be read, and how many more there are."""
    if not snapshot.unread:
        return ""
    more = f" (and {len(snapshot.unread) - 1} more)" if len(snapshot.unread) > 1 else ""
    return f"unread: {snapshot.unread[0]}{more}"
