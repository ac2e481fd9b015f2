"""One line under the gate strip for what a person must know: why a session stands still."""

from textual.content import Content

from workbench.engine.view import State
from workbench.tui.draw import Part, cells, fit, line
from workbench.tui.panes.base import Lines
from workbench.tui.scene import Scene


class Banner(Lines):
    """Hidden while all is well."""

    def show_scene(self, scene: Scene) -> None:
        """Come and go with the reason."""
        self.set_class(message(scene) is not None, "shown")
        super().show_scene(scene)

    def draw(self, scene: Scene, width: int, height: int) -> list[Content]:  # noqa: ARG002
        """One line: cause, then two keys."""
        found = message(scene)
        if found is None:
            return []
        text, style, keys = found
        look = scene.look
        tail: list[Part] = []
        for key, says in keys:
            tail += [("  ", ""), (key, f"bold {look.accent}"), (f" {says}", look.muted)]
        return [line((fit(text, width - cells(tail)), style), *tail)]


_RESUME = (("l", "log"), ("q", "leave and resume"))
_LOOK_AROUND = (("d", "diff"), ("q", "leave"))
Keys = tuple[tuple[str, str], ...]

_SAYS: dict[State, tuple[str, Keys]] = {
    State.FAILED: ("✗ the engine failed", _RESUME),
    State.LOST: ("✗ the engine died", _RESUME),
    State.STOPPED: ("stopped", _RESUME),
    State.SAVED: ("saved session, no engine runs", _RESUME),
    State.BUDGET: ("the budget is spent", _LOOK_AROUND),
    State.FINISHED: ("✓ finished", _LOOK_AROUND),
}


def message(scene: Scene) -> tuple[str, str, Keys] | None:
    """Text, style and two keys; None when there is nothing to say."""
    snapshot, look = scene.snapshot, scene.look
    if scene.trouble:
        return f"✗ {scene.trouble}", f"bold {look.bad}", _RESUME
    if snapshot.state not in _SAYS:
        return None
    text, keys = _SAYS[snapshot.state]
    styles = {
        State.FAILED: f"bold {look.bad}",
        State.LOST: f"bold {look.bad}",
        State.BUDGET: look.warn,
        State.FINISHED: look.good,
    }
    says = f": {snapshot.says}" if snapshot.says else ""
    return text + says, styles.get(snapshot.state, look.muted), keys
