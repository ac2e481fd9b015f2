"""Compares any two versions: their source, their profiles and their generated code."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar

from msgspec import Struct
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message

from workbench.engine.view import Snapshot
from workbench.errors import WorkbenchError
from workbench.kernels.code_text import LEVELS
from workbench.session.records import Transition
from workbench.tui.dialogs.deltas import delta_lines
from workbench.tui.dialogs.following import Prepared
from workbench.tui.dialogs.generated import (
    CodePair,
    compile_again,
    diffs_of,
    read_code,
    why_not,
)
from workbench.tui.diff.paint import Compared, prepare
from workbench.tui.diff.view import DiffView
from workbench.tui.draw import Part, line
from workbench.tui.feed import Reading
from workbench.tui.keys import Key, Place, bindings, keys_of, shown_by_id
from workbench.tui.look import Look, dressed
from workbench.tui.panes.base import Scroller
from workbench.tui.panes.keybar import KeyBar
from workbench.tui.scene import Scene, committed


class Pair(Struct, frozen=True):
    """Two versions, read and compared."""

    one: Transition
    other: Transition
    sources: Compared


async def read_pair(reading: Reading, snapshot: Snapshot, a: int, b: int, look: Look) -> Pair:
    """Read and compare two versions outside the screen's thread.

    Raises WorkbenchError or OSError.
    """
    one, other = [await reading.record(n, committed(snapshot, n).answer) for n in (a, b)]
    before, after = (await reading.sources(a))[1], (await reading.sources(b))[1]
    compared = await asyncio.to_thread(prepare, before, after, look)
    return Pair(one, other, compared)


class Numbers(Scroller):
    """Lines about a pair that are not a diff: its profile, or why there is no code."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Place.LIST)
    says: Callable[[Look, int], list[Content]] | None = None
    """The lines at a width; None while they are read."""

    def draw(self, scene: Scene, width: int, height: int) -> list[Content]:  # noqa: ARG002 -- all panes share one signature
        """All the lines."""
        return [] if self.says is None else self.says(scene.look, width)


class Compare(Prepared):
    """Shows one pair in several views, each with its key."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Place.COMPARE)
    _VIEWS: ClassVar[tuple[str, ...]] = ("source", "profile", *LEVELS)

    class HelpWanted(Message):
        """The user wants to see the keys of the comparison."""

    def __init__(
        self, reading: Reading, scene: Scene, pair: tuple[int, int], keys: tuple[Key, ...]
    ) -> None:
        super().__init__()
        self._reading, self._scene, self._numbers, self._keys = reading, scene, pair, keys
        self.pair: Pair | None = None
        self.code: CodePair | None = None
        self.levels: dict[str, Compared] = {}
        self.view = "source"
        self._compiling = False
        self.diff = DiffView(scene.look)
        self.numbers = Numbers(id="numbers")
        self.bar = KeyBar(
            keys_of(keys, Place.COMPARE, Place.DIFF), self._label, keep=("help", "back")
        )

    def _label(self, key: Key, _scene: Scene) -> str:
        return key.label if key.id != "code-again" or self._offers else ""

    @property
    def _offers(self) -> bool:
        return self.view in LEVELS and self.code is not None and self.code.offers

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
        self._start(self._read(), then=self.ready.set)

    def _start(self, work: Coroutine[Any, Any, None], *, then: Callable[[], None]) -> None:
        """Run `work`, show the view again, and call `then`; a fault is shown as a message."""

        async def whole() -> None:
            try:
                await work
                self.action_view(self.view)
            except (WorkbenchError, OSError) as fault:
                self.notify(str(fault), severity="error", timeout=10, markup=False)
                if self.pair is None:
                    self.dismiss()
            then()

        self.run_worker(whole(), group="pair")

    async def _read(self) -> None:
        look = self._scene.look
        self.pair = await read_pair(self._reading, self._scene.snapshot, *self._numbers, look)

    async def _read_code(self) -> None:
        self.code = await read_code(self._reading, *self._numbers)
        await self._compare_code()

    async def _compile(self) -> None:
        if self.code is not None:
            self.code = await compile_again(self._reading, self.code)
            await self._compare_code()

    async def _compare_code(self) -> None:
        if self.code is not None and self.code.whole:
            self.levels = await diffs_of(self.code, self._scene.look)

    def show_scene(self, scene: Scene) -> None:
        """Both versions are committed and do not change; only the look may."""
        self._scene = scene
        self.numbers.show_scene(scene)
        self.bar.show_scene(scene)

    def action_view(self, view: str) -> None:
        """Show the source, the profile or a level of the generated code."""
        asked = view in LEVELS and self.code is None and self.pair is not None
        self.view = view
        shown = self.levels.get(view)
        if view == "source" and self.pair is not None:
            shown = self.pair.sources
        self.diff.display = shown is not None
        self.numbers.display = not self.diff.display
        self.numbers.says = self._says(view)
        self.numbers.top = 0
        self.numbers.redraw()
        if shown is not None:
            self.diff.compare(shown)
        (self.diff if self.diff.display else self.numbers).focus()
        self.bar.redraw()
        self._title(view, shown)
        if asked:
            self._start(self._read_code(), then=lambda: None)

    def _says(self, view: str) -> Callable[[Look, int], list[Content]] | None:
        pair, code = self.pair, self.code
        if pair is None or (view in LEVELS and code is None):
            return lambda look, _: [line((" reading…", look.faint))]
        if view == "profile":
            return lambda look, width: delta_lines(pair.one, pair.other, look, width)
        if view not in LEVELS or code is None or code.whole:
            return None
        if self._compiling:
            return lambda look, _: [line((" compiling; this takes a few seconds", look.muted))]
        key = shown_by_id(self._keys, "code-again")
        return lambda look, width: why_not(code, look, width, key)

    def _title(self, view: str, shown: Compared | None) -> None:
        """Set the border's texts: pair and view above, notes on the diff below."""
        look, (a, b) = self._scene.look, self._numbers
        parts: list[Part] = [f"v{a} → v{b} "]
        for place, name in enumerate(self._VIEWS, start=1):
            style = f"bold {look.accent}" if name == view else f"not bold {look.muted}"
            parts.append((f" {place} {name}", style))
        box = self.query_one(".box")
        box.border_title = dressed(line(*parts), look)
        same = (
            view == "source"
            and shown is not None
            and not (shown.difference.added or shown.difference.removed)
        )
        notes = "the same source" if same else ""
        if view in LEVELS and shown is not None and self.code is not None:
            notes = self.code.notes(view, shown)
        box.border_subtitle = dressed(line(notes), look)

    def action_code_again(self) -> None:
        """Compile what was not kept; the screen stays responsive."""
        if self._compiling or not self._offers:
            return

        def done() -> None:
            self._compiling = False
            self.action_view(self.view)

        self._compiling = True
        self.action_view(self.view)
        self._start(self._compile(), then=done)

    def action_help(self) -> None:
        """The keys of the comparison."""
        self.post_message(self.HelpWanted())

    def action_back(self) -> None:
        """Go back to the main screen."""
        self.dismiss()
