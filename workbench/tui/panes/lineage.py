"""The lineage pane: a graph with a row for each version, newest on top, and details of one."""

from collections.abc import Iterable
from typing import ClassVar

from msgspec import structs
from textual import events
from textual.binding import BindingType
from textual.content import Content
from textual.message import Message

from workbench.engine.once import once
from workbench.engine.view import State, Version
from workbench.lineage.lanes import Lanes, Role
from workbench.measure.records import Kind
from workbench.session.records import Answer
from workbench.tui.draw import Part, cells, line, wrapped
from workbench.tui.keys import Key, Place, bindings, shown_by_id
from workbench.tui.look import Look
from workbench.tui.panes.base import Pane
from workbench.tui.panes.detail import DETAIL_LINES, MOST_LINES, detail
from workbench.tui.panes.version import brief, lost, mark, speed_style, title, versus_seed
from workbench.tui.scene import ALIVE, Scene, rows, under_way

NARROW = 45
_DETAIL_FROM = 20
"""Height from which the selected version's details are always shown."""
_FREE_ROWS = 6
"""Free rows under the graph from which they are shown in a lower pane too."""
_MOST_KEPT = 512
"""Most drawn rows that are cached."""
_TEXT_ROOM = 24
"""Cells reserved for name, speed and title, however many lanes there are."""


class Lineage(Pane):
    """Moves a selection over the versions; draws only the rows in view."""

    number: ClassVar[int] = 1
    heading: ClassVar[str] = "Lineage"
    place: ClassVar[Place] = Place.LINEAGE
    BINDINGS: ClassVar[list[BindingType]] = bindings(Place.LINEAGE)

    class Picked(Message):
        """The user selected a version; None follows the newest."""

        def __init__(self, number: int | None) -> None:
            super().__init__()
            self.number = number

    def __init__(self, table: tuple[Key, ...]) -> None:
        super().__init__()
        self._table = table
        self._told: tuple[tuple[Version, ...], Version | None] = (), None
        """The committed versions and the one in the gate, from which the rows were made."""
        self._rows: tuple[Version, ...] = ()
        self._graph = Lanes(())
        self._index: dict[int, int] = {}
        self._kept: dict[tuple[int, bool], Content] = {}
        """Cache of drawn rows by index and whether selected, valid for `_kept_for`."""
        self._kept_for: tuple[object, ...] = ()

    def aside(self, scene: Scene) -> str:
        """What the speeds mean."""
        newest = scene.snapshot.versions[-50:]
        kinds = {v.speed_vs_seed.kind for v in newest if v.speed_vs_seed}
        if not kinds:
            return ""
        timed = " or time" if any(_speed(v, scene).endswith("s") for v in newest) else ""
        return f"vs seed{timed}" + (", ~ modeled" if Kind.MODELED in kinds else "")

    def foot(self, scene: Scene) -> str:
        """Number of versions, and of those that were not kept."""
        versions = scene.snapshot.versions
        gone = _not_kept(versions)
        return f"{len(versions)} version{'' if len(versions) == 1 else 's'}, {gone} not kept"

    def show_scene(self, scene: Scene) -> None:
        """Draw a new scene; the graph is laid out again only when a version has changed."""
        versions, running = told = scene.snapshot.versions, under_way(scene.snapshot)
        if versions is not self._told[0] or running != self._told[1]:
            self._told = told
            self._arrange(rows(scene.snapshot))
        super().show_scene(scene)

    def _arrange(self, now: tuple[Version, ...]) -> None:
        if now != self._rows:
            self._rows = now
            self._index = {version.number: at for at, version in enumerate(now)}
            self._graph = Lanes(now)
            self._kept.clear()

    def window(self, lines: list[Content], height: int) -> list[Content]:
        """All lines: `draw` returns only those in view."""
        return lines[:height]

    # -- drawing --------------------------------------------------------------------------------

    def draw(self, scene: Scene, width: int, height: int) -> list[Content]:
        """The rows around the selection, then its details."""
        if not self._rows:
            return _empty(scene, width, self._table)
        detailed = height >= _DETAIL_FROM or height - len(self._rows) >= _FREE_ROWS
        below = min(MOST_LINES, max(DETAIL_LINES, height - len(self._rows) - 1))
        room = height - below if detailed else height
        at = self._index.get(scene.selected if scene.selected is not None else -1, 0)
        self.top = max(min(self.top, at), at - room + 1, 0)
        self.top = min(self.top, max(0, len(self._rows) - room))
        shown = range(self.top, min(self.top + room, len(self._rows)))
        snapshot = scene.snapshot
        kept_for = (width, scene.look, scene.mark, snapshot.incumbent, snapshot.best)
        if kept_for != self._kept_for or len(self._kept) > _MOST_KEPT:
            self._kept_for = kept_for
            self._kept.clear()
        drawn = [self._row(index, scene, width, selected=index == at) for index in shown]
        if detailed:
            told = detail(scene, width, below)
            drawn += [line("")] * (height - len(told) - len(drawn))
            drawn += told
        return drawn

    def _row(self, index: int, scene: Scene, width: int, *, selected: bool) -> Content:
        """A row from the cache, or drawn if something about it changed."""
        key = index, selected
        if key not in self._kept:
            self._kept[key] = self._draw_row(index, scene, width, selected=selected)
        return self._kept[key]

    def _draw_row(self, index: int, scene: Scene, width: int, *, selected: bool) -> Content:
        version, look = self._rows[index], scene.look
        if selected:  # faint text would be invisible on the cursor's background
            look = structs.replace(look, faint=look.muted)
        quiet = look.faint if lost(version) else ""
        parts: list[Part] = [" ", *self._lanes(index, look, width)]
        digits = max(4, len(str(self._rows[0].number)) + 2)
        name = f"v{version.number}" + ("'" if version.number == scene.mark else "")
        parts.append((name.ljust(digits), quiet or "bold"))
        speed = f"{_speed(version, scene):>6}"
        strong = speed_style(version, look)
        parts += [(speed, quiet or strong), "  " if width >= NARROW else " "]
        parts += title(version, look, width - cells(parts), quiet, tip=_tip(version, scene))
        text = line(*parts)
        if not selected:
            return text
        padded = text.pad_right(max(0, width - text.cell_length))
        return padded.stylize_before(look.cursor)

    def _lanes(self, index: int, look: Look, width: int) -> list[Part]:
        """The graph's cells; an ellipsis replaces lanes for which there is no room."""
        row = self._graph[index]
        room = max(2, min(2 * self._graph.width, width - _TEXT_ROOM))
        parts: list[Part] = []
        for cell in row.cells[:room]:
            style = look.faint if cell.faint else look.lanes[cell.lane % len(look.lanes)]
            if cell.role is Role.NODE:
                sign, sign_style = mark(self._rows[index], look)
                parts.append((sign, sign_style or style))
            else:
                parts.append((cell.glyph, style))
        if len(row.cells) > room:
            hidden = 2 * row.lane >= room
            parts[-1] = mark(self._rows[index], look) if hidden else ("…", look.faint)
        return [*parts, " " * (room - len(parts))]

    # -- moving ---------------------------------------------------------------------------------

    @property
    def at(self) -> int:
        """Index of the selected row."""
        selected = self.scene.selected if self.scene is not None else None
        return self._index.get(selected, 0) if selected is not None else 0

    def pick(self, index: int) -> None:
        """Select a row; the top one means to follow the newest."""
        if self._rows:
            index = max(0, min(index, len(self._rows) - 1))
            self.post_message(self.Picked(self._rows[index].number if index else None))

    def scroll_lines(self, step: int) -> None:
        """Move the selection."""
        self.pick(self.at + step)

    def action_first(self) -> None:
        """The newest."""
        self.pick(0)

    def action_last(self) -> None:
        """The seed."""
        self.pick(len(self._rows) - 1)

    def action_newer_kept(self) -> None:
        """Up to the next accepted version."""
        self._to_kept(range(self.at - 1, -1, -1))

    def action_older_kept(self) -> None:
        """Down to the next accepted version."""
        self._to_kept(range(self.at + 1, len(self._rows)))

    def _to_kept(self, indices: Iterable[int]) -> None:
        for index in indices:
            if self._rows[index].answer is Answer.ACCEPTED:
                self.pick(index)
                return

    def on_click(self, event: events.Click) -> None:
        """A click selects its row."""
        row = event.y - self.gutter.top
        if 0 <= row < len(self._rows) - self.top and row < self.size.height:
            self.pick(self.top + row)

    def copied(self) -> str:
        """The selected version's commit."""
        version = self.scene.version if self.scene is not None else None
        return version.commit if version is not None else ""


_NEXT = {
    "review": "Then steps come by themselves; each that passes its gate waits for your review.",
    "auto": "Then steps come by themselves, and the gate decides.",
    "manual": "Then every step waits for you to start it.",
}
"""What comes after the seed, by mode."""


def _empty(scene: Scene, width: int, table: tuple[Key, ...]) -> list[Content]:
    """What happens now, and which keys take a person on from here."""
    look, state = scene.look, scene.snapshot.state
    starting = state in {State.STARTING, State.RUNNING}
    says = "The seed is in the gate; it comes first." if starting else "No version was committed."
    hints = [("help", "see every key")]
    if scene.resumable or scene.met:
        hints.insert(0, ("pause", "start the engine again"))
        hints.append(("sessions", "other sessions, a new run"))
    else:
        hints.append(("log", "what the engine says"))
    hints.append(("leave", "leave; the run goes on" if state in ALIVE else "leave"))
    lines = [line(""), line((" Nothing here yet.", "bold"))]
    lines += [*(line(f" {text}") for text in wrapped(says, width - 1)), line("")]
    room = max(len(shown_by_id(table, name)) for name, _ in hints)
    for name, text in hints:
        key = shown_by_id(table, name)
        lines.append(line((f" {key:<{room}} ", f"bold {look.accent}"), (text, look.muted)))
    if starting:
        told = _NEXT.get(scene.snapshot.mode, "")
        lines += [line(""), *(line((f" {text}", look.muted)) for text in wrapped(told, width - 1))]
    return lines


def _speed(version: Version, scene: Scene) -> str:
    """Its speed against the seed; in a lineage, where few are timed beside it, else its time."""
    bare = version.speed_vs_seed is None and version.parent is not None
    if bare and scene.snapshot.kind == "lineage" and version.time is not None:
        return brief(version.time)
    return versus_seed(version)


def _tip(version: Version, scene: Scene) -> str:
    """What the end of the accepted line is called where it is apart from the best."""
    snapshot = scene.snapshot
    if version.number != snapshot.incumbent or snapshot.incumbent == snapshot.best:
        return ""
    return "expert" if snapshot.kind == "lineage" else "main"


@once
def _not_kept(versions: tuple[Version, ...]) -> int:
    return sum(lost(version) for version in versions)
