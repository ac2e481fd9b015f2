"""The first line of the screen: the session, its device, and what it is doing."""

from textual.content import Content

from workbench.engine.view import State, in_steps
from workbench.tui.draw import Part, cells, duration, fit, spread
from workbench.tui.look import Look
from workbench.tui.panes.base import Lines
from workbench.tui.scene import Scene, under_way

WIDE = 100


class Header(Lines):
    """Session, problem, device, target and mode on the left; state, step and time on the right."""

    def draw(self, scene: Scene, width: int, height: int) -> list[Content]:  # noqa: ARG002 -- all panes share one signature
        """One line."""
        return [header(scene, width)]


def header(scene: Scene, width: int) -> Content:
    """The line; the least important parts are dropped if it does not fit."""
    snapshot, look = scene.snapshot, scene.look
    right = _right(scene, wide=width >= WIDE - 2)
    left: list[Part] = [
        ("◆ ", look.accent),
        (fit(snapshot.problem, max(8, width - cells(right) - 4)), "bold"),
    ]
    if scene.scope:
        # Acceptance in advance must always be visible, so it comes first.
        room = width - cells(left) - cells(right) - 4
        left.append(("  " + fit(f"accepting {scene.scope} until a gate fails", room), look.warn))
    ground = _ground(scene)
    room = width - cells(left) - cells(right) - 4
    # The device matters more than the word before the session's name.
    known = "session " if len("session " + snapshot.name) + len(ground) + 2 <= room else ""
    extras = [
        known + snapshot.name,
        ground,
        "lineage" if snapshot.kind == "lineage" else f"{snapshot.mode} mode",
    ]
    if snapshot.baselines is not None:
        extras.append(f"to beat: {snapshot.baselines.bar}")
    for extra in extras:
        if cells(left) + cells(right) + len(extra) + 4 > width:
            break
        left.append(("  " + extra, look.muted))
    return spread(left, right, width)


def _ground(scene: Scene) -> str:
    """`H200, sm90`, or `no GPU, sm90 modeled`."""
    snapshot = scene.snapshot
    if snapshot.device == "cpu":
        return f"no GPU, {snapshot.target} modeled"
    return f"{snapshot.device}, {snapshot.target}"


def _right(scene: Scene, *, wide: bool) -> list[Part]:
    look = scene.look
    mark, word, style = state_sign(scene)
    parts: list[Part] = [(f"{mark} ", style), (word, f"bold {style}")]
    steps = _steps(scene, wide=wide)
    if steps:
        parts.append((f"  {steps}", look.muted))
    if wide and scene.elapsed:
        parts.append((f"  {duration(float(int(scene.elapsed)))}", look.faint))
    return parts


def _steps(scene: Scene, *, wide: bool) -> str:
    snapshot = scene.snapshot
    running = under_way(snapshot)
    step = snapshot.steps + (1 if running is not None and snapshot.versions else 0)
    limit = snapshot.budget.steps
    if not wide:
        return f"{step}/{limit}" if limit is not None else in_steps(step)
    return f"step {step} of {limit}" if limit is not None else f"step {step}"


def state_sign(scene: Scene) -> tuple[str, str, str]:
    """Mark, word and style of what the session is doing."""
    look, state = scene.look, scene.snapshot.state
    if scene.trouble:
        return "✗", "no connection", look.bad
    if scene.stale:
        return "●", f"no news for {int(scene.age // 10 * 10)} s", look.warn
    mark, style = _signs(look)[state]
    return mark, state.value, style


def _signs(look: Look) -> dict[State, tuple[str, str]]:
    """Mark and style of each state."""
    return {
        State.STARTING: ("●", look.accent),
        State.RUNNING: ("●", look.accent),
        State.PAUSED: ("○", look.muted),
        State.SAVED: ("○", look.muted),
        State.STOPPED: ("○", look.muted),
        State.FINISHED: ("✓", look.good),
        State.WAITING: ("●", look.accent),
        State.BUDGET: ("✓", look.warn),
        State.FAILED: ("✗", look.bad),
        State.LOST: ("✗", look.bad),
    }
