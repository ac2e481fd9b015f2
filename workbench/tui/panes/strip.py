"""The gate strip: the stages of the step in the gate, up to its decision."""

from msgspec import structs
from textual.content import Content

from workbench.engine.view import Snapshot, State, StripStage
from workbench.gate.records import Outcome
from workbench.session.records import Answer
from workbench.tui.draw import Part, cells, duration, fit, line
from workbench.tui.look import Look
from workbench.tui.panes.base import Lines
from workbench.tui.scene import ALIVE, Scene, version_of


class GateStrip(Lines):
    """`v17 ── ✓ policy 0.1 s ── ✓ compile 8.2 s ── ◐ correctness 3 of 5 ── · profile`, ..."""

    def show_scene(self, scene: Scene) -> None:
        """Draw a new scene; without an engine, once the selected version's record is read."""
        if self.scene is None or not scene.reading or scene.snapshot.state in ALIVE:
            super().show_scene(scene)

    def draw(self, scene: Scene, width: int, height: int) -> list[Content]:  # noqa: ARG002 -- all panes share one signature
        """One line."""
        return [strip(at_rest(scene), width)]


def at_rest(scene: Scene) -> Scene:
    """The scene for the strip: without an engine, it shows the selected version's stages."""
    record, snapshot = scene.record, scene.snapshot
    if record is None or snapshot.state in ALIVE:
        return scene
    stages = tuple(
        StripStage(stage=one.stage, outcome=one.outcome, seconds=one.seconds, says=one.says)
        for one in record.gate.stages
    )
    now = structs.replace(snapshot, current=record.number, strip=stages)
    return structs.replace(scene, snapshot=now)


def stage_sign(stage: StripStage, look: Look) -> tuple[str, str]:
    """Mark and style of one stage."""
    if stage.running:
        return "◐", look.accent
    match stage.outcome:
        case Outcome.PASSED:
            return "✓", look.good
        case Outcome.FAILED:
            return "✗", f"bold {look.bad}"
        case Outcome.UNPROVEN:
            return "?", look.warn
        case _:
            return "·", look.faint


def strip(scene: Scene, width: int) -> Content:
    """The most detailed form that fits."""
    snapshot, look = scene.snapshot, scene.look
    if snapshot.current is None:
        return line((_idle(snapshot), look.muted))
    forms = (
        _form(scene, gap=" ── ", details=True),
        _form(scene, gap=" ─ ", details=True),
        _form(scene, gap=" ─ ", details=False),
        _form(scene, gap=" ", details=False),
    )
    for parts in forms:
        room = width - cells(parts)
        if room >= 0:
            return line(*parts, *_why(scene, room))
    return line(*_marks_only(scene, width))


def _idle(snapshot: Snapshot) -> str:
    if snapshot.state is State.STARTING:
        return "the seed goes through the gate first"
    return "no step is in the gate"


def _form(scene: Scene, *, gap: str, details: bool) -> list[Part]:
    look = scene.look
    parts: list[Part] = [(f"v{scene.snapshot.current}", f"bold {look.primary}")]
    for stage in scene.snapshot.strip:
        mark, style = stage_sign(stage, look)
        quiet = stage.outcome in {None, Outcome.SKIPPED} and not stage.running
        parts += [(gap, look.line), (f"{mark} ", style), (stage.stage, look.faint if quiet else "")]
        detail = _detail(stage)
        if details and detail:
            parts.append((f" {detail}", look.muted))
    mark, word, style = _decision(scene, short=not details)
    return [*parts, (gap, look.line), (f"{mark} {word}", style)]


def _detail(stage: StripStage) -> str:
    if stage.running:
        return fit(stage.says, 24)
    if stage.outcome in {None, Outcome.SKIPPED}:
        return ""
    return duration(stage.seconds)


def _decision(scene: Scene, *, short: bool) -> tuple[str, str, str]:
    snapshot, look = scene.snapshot, scene.look
    if snapshot.pending is not None and snapshot.pending == snapshot.current:
        return "◆", "you" if short else "your decision", f"bold {look.accent}"
    version = version_of(snapshot, snapshot.current)
    match version.answer if version else Answer.PENDING:
        case Answer.ACCEPTED:
            return "●", "accepted", look.good
        case Answer.REJECTED:
            return "✗", "rejected", look.bad
        case Answer.VETOED:
            return "✗", "vetoed", look.bad
        case _:
            return "·", "decision", look.faint


def _why(scene: Scene, room: int) -> list[Part]:
    """What a failed stage said, cut to the room."""
    stopped = next(
        (s for s in scene.snapshot.strip if s.outcome in {Outcome.FAILED, Outcome.UNPROVEN}), None
    )
    if stopped is None or not stopped.says or room < 16:
        return []
    return [("  " + fit(stopped.says, room - 2), scene.look.muted)]


def _marks_only(scene: Scene, width: int) -> list[Part]:
    look = scene.look
    signs = [stage_sign(stage, look) for stage in scene.snapshot.strip]
    mark, word, style = _decision(scene, short=True)
    at = next((s.stage for s in scene.snapshot.strip if s.running), word)
    parts: list[Part] = [(f"v{scene.snapshot.current} ", f"bold {look.primary}"), *signs]
    return [*parts, (mark, style), (" " + fit(at, max(0, width - cells(parts) - 2)), "")]
