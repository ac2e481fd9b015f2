"""The rungs pane: how many versions reached each stage of the gate, and how many were kept."""

from typing import ClassVar

from textual.content import Content

from workbench.engine.funnel import Rung, funnel
from workbench.tui.draw import Part, bar, cells, duration, line
from workbench.tui.panes.base import Pane
from workbench.tui.scene import Scene

_ONE_LINE_BELOW = 3


class Rungs(Pane):
    """Bars if there is room, else one line of numbers."""

    number: ClassVar[int] = 4
    heading: ClassVar[str] = "Rungs"

    def aside(self, scene: Scene) -> str:  # noqa: ARG002 -- all panes share one signature
        """What is counted."""
        return "versions that came this far"

    def draw(self, scene: Scene, width: int, height: int) -> list[Content]:
        """A line for each rung, or one line for all."""
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
