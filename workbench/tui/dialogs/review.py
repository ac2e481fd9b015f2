"""One version on the table: facts, the whole diff, and, while it waits, accept and veto."""

import asyncio
from typing import ClassVar

from msgspec import Struct, structs
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.geometry import Size
from textual.message import Message
from textual.screen import ModalScreen

from workbench.engine.view import Snapshot
from workbench.errors import WorkbenchError
from workbench.session.records import Answer, Transition
from workbench.tui.dialogs.ask import Reason
from workbench.tui.dialogs.facts import Facts
from workbench.tui.diff.paint import Compared, prepare
from workbench.tui.diff.rows import hunk_starts, patch
from workbench.tui.diff.view import DiffView
from workbench.tui.draw import Part, line
from workbench.tui.feed import Reading
from workbench.tui.keys import Key, Place, bindings, heard
from workbench.tui.layout import Layout, layout_of
from workbench.tui.look import Look, dressed
from workbench.tui.panes.keybar import KeyBar
from workbench.tui.scene import ALIVE, Scene, outline, version_of


class Table(Struct, frozen=True):
    """All there is to see of one version: what an answer is about."""

    number: int
    record: Transition
    parent: Transition | None
    before: str
    after: str
    compared: Compared


async def lay_out(reading: Reading, snapshot: Snapshot, number: int, look: Look) -> Table:
    """Read a version and compare it with its parent, off the screen's own thread.

    Raises WorkbenchError or OSError when something cannot be read.
    """
    version = version_of(snapshot, number)
    if version is None:
        raise WorkbenchError(f"v{number} is not committed yet")
    record = await reading.record(number, version.answer)
    above = version_of(snapshot, record.parent)
    parent = await reading.record(above.number, above.answer) if above is not None else None
    before, after = await reading.sources(number)
    compared = await asyncio.to_thread(prepare, before, after, look)
    return Table(number, record, parent, before, after, compared)


class Review(ModalScreen[None]):
    """Nothing is decided but by `a`, or by `v` with a reason, on what is on screen."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Place.REVIEW)

    class Copied(Message):
        """The person wants the diff as text."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class HelpWanted(Message):
        """The person wants the keys of the review."""

    def __init__(self, reading: Reading, scene: Scene, table: Table, keys: tuple[Key, ...]) -> None:
        super().__init__()
        self._reading = reading
        self._table = table
        self._scene = self._about(scene)
        self._answering = False
        self._titles: tuple[str, list[Part]] | None = None
        self.facts = Facts(id="facts")
        self.diff = DiffView(table.compared, scene.look)
        heard_here = heard(keys, Place.REVIEW, Place.DIFF)
        self.bar = KeyBar(heard_here, self._label, keep=("later", "help"))

    def _about(self, scene: Scene) -> Scene:
        """The moment with the version on the table selected."""
        table = self._table
        return structs.replace(
            scene, selected=table.number, record=table.record, parent=table.parent
        )

    def compose(self) -> ComposeResult:
        """Facts, diff, keys."""
        with Vertical(classes="box review"):
            yield self.facts
            yield self.diff
            yield self.bar

    def on_mount(self) -> None:
        """The diff has the focus, so that its keys move it."""
        self.diff.focus()
        self._fill(self.app.size)
        self._redraw()

    def on_resize(self, event: events.Resize) -> None:
        """All of a small terminal is for the review."""
        self._fill(event.size)
        self._entitle()

    def _fill(self, size: Size) -> None:
        full = layout_of(size.width, size.height) is not Layout.WIDE
        self.query_one(".box").set_class(full, "full")

    @property
    def number(self) -> int:
        """Of the version on the table."""
        return self._table.number

    @property
    def decidable(self) -> bool:
        """Whether an answer is wanted, and an engine is there to take it."""
        snapshot = self._scene.snapshot
        waits = snapshot.pending == self.number and snapshot.state in ALIVE
        return waits and not self._answering

    def show_scene(self, scene: Scene) -> None:
        """Follow the session: what was decided elsewhere can no longer be decided here."""
        before, self._scene = self._scene, self._about(scene)
        if outline(before) == outline(self._scene):
            return
        if before.snapshot.pending == self.number != scene.snapshot.pending:
            self.run_worker(self._read_answer(), group="read", exclusive=True)
        self._redraw()

    async def _read_answer(self) -> None:
        """The record as it was decided, here or elsewhere."""
        version = version_of(self._scene.snapshot, self.number)
        if version is None:
            return
        try:
            record = await self._reading.record(version.number, version.answer)
        except (WorkbenchError, OSError) as fault:
            self._refuse(str(fault))
            return
        self._table = structs.replace(self._table, record=record)
        self._scene = self._about(self._scene)
        self._redraw()

    # -- drawing --------------------------------------------------------------------------------

    def _redraw(self) -> None:
        self.facts.show_scene(self._scene)
        width, height = self.facts.size
        if width and self.facts.lines_for(self._scene, width) != height:
            self.facts.refresh(layout=True)
        self.bar.show_scene(self._scene)
        self._entitle()

    def _entitle(self) -> None:
        look, table = self._scene.look, self._table
        box, version = self.query_one(".box"), self._scene.version
        verb = "Review" if self._scene.snapshot.pending == self.number else "Look at"
        title = f"{verb} v{self.number}: {version.title if version is not None else ''}"
        writes = self._writes(look)
        if (title, writes) == self._titles:
            return
        self._titles = (title, writes)
        box.border_title = dressed(line(title), look)
        box.border_subtitle = dressed(line(*writes), look)
        parent = "" if table.record.parent is None else f"v{table.record.parent} → "
        changes = len(hunk_starts(table.compared.difference.rows))
        self.diff.border_title = dressed(
            line(
                (f"{parent}v{self.number}  ", look.muted),
                (f"+{table.compared.difference.added} ", look.good),
                (f"-{table.compared.difference.removed} ", look.bad),
                (f"in {changes} change{'' if changes == 1 else 's'}", look.muted),
            ),
            look,
        )

    def _writes(self, look: Look) -> list[Part]:
        """What accept and veto would write to git, or why there is nothing to answer."""
        snapshot, version = self._scene.snapshot, self._scene.version
        commit = version.commit[:9] if version is not None else ""
        if snapshot.pending != self.number:
            answer = version.answer if version is not None else "unknown"
            return [(f"{commit} {answer}; read only", look.muted)]
        if snapshot.state not in ALIVE:
            return [(f"no engine runs: workbench resume {snapshot.name}, then decide", look.warn)]
        ref = f"attempts/{self.number:04d}"
        forms = (
            f"accept: commit refs/{ref}, main moves to it; veto: commit it, main stays",
            f"accept: commit {ref}, main moves; veto: main stays",
            "accept moves main, veto does not",
        )
        room = self.app.size.width - 8
        return [(next((form for form in forms if len(form) <= room), forms[-1]), look.muted)]

    def _label(self, key: Key, scene: Scene) -> str:
        if key.id in {"accept", "veto"} and not self.decidable:
            return ""
        if key.id == "later" and scene.snapshot.pending != self.number:
            return "Close"
        return key.label

    def _refuse(self, why: str) -> None:
        self.facts.refusal = " ".join(why.split())
        self._redraw()

    # -- answering ------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Accept and veto exist only while an answer is wanted."""
        return self.decidable if action in {"accept", "veto"} else True

    def action_accept(self) -> None:
        """Accept what is on screen."""
        self._answer(Answer.ACCEPTED, "")

    def action_veto(self) -> None:
        """Ask for the reason first."""

        def reasoned(reason: str | None) -> None:
            if reason and self.decidable:
                self._answer(Answer.VETOED, reason)
            elif reason:
                self._refuse(f"v{self.number} waits no longer; nothing was sent")

        hint = "the proposer reads it before the next step"
        self.app.push_screen(Reason(f"Veto v{self.number}", hint, self._scene.look), reasoned)

    def _answer(self, answer: Answer, reason: str) -> None:
        self._answering = True
        self.bar.redraw()
        self.run_worker(self._send(answer, reason), group="answer")

    async def _send(self, answer: Answer, reason: str) -> None:
        try:
            says = await self._reading.client.decide(self.number, answer, reason)
        except WorkbenchError as fault:
            self._answering = False
            self._refuse(f"{fault.what}. {fault.todo}" if fault.todo else fault.what)
            return
        self.notify(says or f"v{self.number} {answer}", markup=False)
        self.dismiss()

    def action_later(self) -> None:
        """Close; whatever waited goes on waiting."""
        self.dismiss()

    # -- the rest -------------------------------------------------------------------------------

    def on_key_bar_pressed(self, event: KeyBar.Pressed) -> None:
        """A click on the bar is the key."""
        event.stop()
        self.app.simulate_key(event.key)

    def action_copy(self) -> None:
        """The diff as a patch."""
        text = patch(self._table.before, self._table.after, "a/kernel.py", "b/kernel.py")
        self.post_message(self.Copied(text))

    def action_help(self) -> None:
        """The keys of the review."""
        self.post_message(self.HelpWanted())
