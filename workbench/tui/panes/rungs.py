"""The funnel: how many versions came to each stage of the gate, and how many were kept."""

from collections import Counter
from typing import ClassVar

from msgspec import Struct
from textual.content import Content

from workbench.engine.view import Snapshot
from workbench.gate.records import Stage
from workbench.session.records import Answer
from workbench.tui.draw import Part, bar, cells, duration, line
from workbench.tui.panes.base import Pane
from workbench.tui.scene import Scene

_FROM = {stage: tuple(Stage)[place:] for place, stage in enumerate(Stage)}
"""Each stage with those after it."""
_ONE_LINE_BELOW = 3


class Rung(Struct, frozen=True, kw_only=True):
    """One step of the funnel."""

    name: str
    count: int
    """Versions that came this far."""
    now: bool = False
    """Whether the step under way is here."""
    seconds: float | None = None
    """That the step under way took here."""


def funnel(snapshot: Snapshot) -> tuple[Rung, ...]:
    """Stages in order with the versions that reached each, then those that were accepted."""
    ended = Counter(version.stage for version in snapshot.versions)
    reached = {stage: sum(ended[later] for later in _FROM[stage]) for stage in Stage}
    accepted = sum(version.answer is Answer.ACCEPTED for version in snapshot.versions)
    strip = {known.stage: known for known in snapshot.strip}
    rungs = tuple(
        Rung(
            name=stage,
            count=reached[stage],
            now=stage in strip and strip[stage].running,
            seconds=strip[stage].seconds or None if stage in strip else None,
        )
        for stage in Stage
    )
    waiting = snapshot.pending is not None
    return (*rungs, Rung(name="accepted", count=accepted, now=waiting))


class Rungs(Pane):
    """Bars when there is room, else one line of numbers."""

    number: ClassVar[int] = 4
    heading: ClassVar[str] = "Rungs"

    def aside(self, scene: Scene) -> str:  # noqa: ARG002
        """What the numbers count."""
        return "versions that came this far"

    def draw(self, scene: Scene, width: int, height: int) -> list[Content]:
        """A line a rung, or all in one."""
        rungs = funnel(scene.snapshot)
        if height < _ONE_LINE_BELOW:
            return [_one_line(rungs, scene, width)]
        return [_bar_line(rung, rungs[0].count, scene, width) for rung in rungs]


def _bar_line(rung: Rung, top: int, scene: Scene, width: int) -> Content:
    look = scene.look
    took = duration(rung.seconds) if rung.seconds else ""
    span = max(6, width - 30)
    style = look.accent if rung.now else look.lanes[0]
    return line(
        ("▸ " if rung.now else "  ", look.accent),
        (f"{rung.name:<12}", f"bold {look.accent}" if rung.now else ""),
        *bar(rung.count / top if top else 0.0, span, style, look.line),
        (f"{rung.count:>5}", "bold" if rung.now else ""),
        (f"{took:>9} ", look.muted),
    )


def _one_line(rungs: tuple[Rung, ...], scene: Scene, width: int) -> Content:
    look = scene.look
    parts: list[Part] = [(" ", "")]
    for index, rung in enumerate(rungs):
        if index:
            parts.append((" ▸ ", look.faint))
        parts += [
            (f"{rung.name} ", f"bold {look.accent}" if rung.now else look.muted),
            (str(rung.count), "bold" if rung.now else ""),
        ]
    if cells(parts) > width:
        parts = [part for part in parts if part != (" ▸ ", look.faint)]
    return line(*parts)
