"""Any two versions against each other: source, profile, and what is kept of the generated code."""

import asyncio
from typing import ClassVar

from msgspec import Struct
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content

from workbench.engine.view import Snapshot
from workbench.errors import WorkbenchError
from workbench.session.records import Transition
from workbench.tui.dialogs.deltas import code_lines, delta_lines
from workbench.tui.dialogs.following import Prepared
from workbench.tui.diff.paint import Compared, prepare
from workbench.tui.diff.view import DiffView
from workbench.tui.draw import Part, line
from workbench.tui.feed import Reading
from workbench.tui.keys import Key, Place, bindings, heard
from workbench.tui.look import Look, dressed
from workbench.tui.panes.base import Scroller
from workbench.tui.panes.keybar import KeyBar
from workbench.tui.scene import Scene, version_of


class Pair(Struct, frozen=True):
    """Two versions, read and compared."""

    one: Transition
    other: Transition
    sources: Compared


async def read_pair(reading: Reading, snapshot: Snapshot, a: int, b: int, look: Look) -> Pair:
    """Read both, off the screen's own thread. Raises WorkbenchError or OSError."""
    records = []
    for number in (a, b):
        version = version_of(snapshot, number)
        if version is None:
            raise WorkbenchError(f"v{number} is not committed yet")
        records.append(await reading.record(number, version.answer))
    before, after = (await reading.sources(a))[1], (await reading.sources(b))[1]
    compared = await asyncio.to_thread(prepare, before, after, look)
    return Pair(records[0], records[1], compared)


class Numbers(Scroller):
    """Profile or code of a pair, whichever is asked for."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Place.LIST)
    pair: Pair | None = None
    code: bool = False

    def draw(self, scene: Scene, width: int, height: int) -> list[Content]:  # noqa: ARG002
        """As many lines as there are."""
        if self.pair is None:
            return []
        lines = code_lines if self.code else delta_lines
        return lines(self.pair.one, self.pair.other, scene.look, width)


class Compare(Prepared):
    """Three views of one pair; the keys 1, 2 and 3 choose."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Place.COMPARE)
    _VIEWS: ClassVar[tuple[str, ...]] = ("source", "profile", "code")

    def __init__(
        self, reading: Reading, scene: Scene, pair: tuple[int, int], keys: tuple[Key, ...]
    ) -> None:
        super().__init__()
        self._reading, self._scene, self._numbers = reading, scene, pair
        self.pair: Pair | None = None
        self.view = "source"
        self.diff = DiffView(scene.look)
        self.numbers = Numbers(id="numbers")
        self.bar = KeyBar(
            heard(keys, Place.COMPARE, Place.DIFF), lambda key, _: key.label, keep=("back",)
        )

    def compose(self) -> ComposeResult:
        """Source or numbers, then the keys."""
        with Vertical(classes="box review"):
            yield self.diff
            yield self.numbers
            yield self.bar

    def on_mount(self) -> None:
        """Read both versions."""
        self.action_view("source")
        self.show_scene(self._scene)
        self.run_worker(self._read(), group="pair")

    async def _read(self) -> None:
        snapshot, look = self._scene.snapshot, self._scene.look
        try:
            pair = await read_pair(self._reading, snapshot, *self._numbers, look)
        except (WorkbenchError, OSError) as fault:
            self.notify(str(fault), severity="error", timeout=10, markup=False)
            self.ready.set()
            self.dismiss()
            return
        self.pair = self.numbers.pair = pair
        self.diff.compare(pair.sources)
        self.numbers.redraw()
        self.ready.set()

    def show_scene(self, scene: Scene) -> None:
        """Both versions are committed and stay as they are; only the look may change."""
        self._scene = scene
        self.numbers.show_scene(scene)
        self.bar.show_scene(scene)

    def action_view(self, view: str) -> None:
        """Source, profile or code."""
        self.view = view
        self.diff.display = view == "source"
        self.numbers.display = view != "source"
        self.numbers.code = view == "code"
        self.numbers.top = 0
        self.numbers.redraw()
        (self.diff if view == "source" else self.numbers).focus()
        look, (a, b) = self._scene.look, self._numbers
        parts: list[Part] = [f"v{a} against v{b}  "]
        for place, name in enumerate(self._VIEWS, start=1):
            style = f"bold {look.accent}" if name == view else f"not bold {look.muted}"
            parts.append((f" {place} {name}", style))
        self.query_one(".box").border_title = dressed(line(*parts), look)

    def on_key_bar_pressed(self, event: KeyBar.Pressed) -> None:
        """A click on the bar is the key."""
        event.stop()
        self.app.simulate_key(event.key)

    def action_back(self) -> None:
        """To the main screen."""
        self.dismiss()
