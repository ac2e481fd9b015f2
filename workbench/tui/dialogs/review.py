"""One version on the table: facts, the whole diff, and, while it waits, accept and veto."""

import asyncio
from typing import ClassVar

from msgspec import Struct, structs
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.screen import ModalScreen

from workbench.errors import WorkbenchError
from workbench.session.records import Answer
from workbench.tui.dialogs.ask import Reason
from workbench.tui.dialogs.facts import Facts
from workbench.tui.diff.paint import prepare
from workbench.tui.diff.rows import patch
from workbench.tui.diff.view import DiffView
from workbench.tui.draw import Part, line
from workbench.tui.feed import Client, Reading
from workbench.tui.keys import Key, Place, bindings, heard
from workbench.tui.layout import Layout, layout_of
from workbench.tui.look import Look, dressed
from workbench.tui.panes.keybar import KeyBar
from workbench.tui.scene import ALIVE, Scene, version_of


class Shown(Struct, frozen=True):
    """The sources that are on screen: what an answer is about."""

    before: str
    after: str


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

    def __init__(
        self, client: Client, reading: Reading, scene: Scene, table: tuple[Key, ...]
    ) -> None:
        """`scene.selected` is the version on the table."""
        super().__init__()
        self._client = client
        self._reading = reading
        self._scene = structs.replace(scene, record=None, parent=None)
        self._shown: Shown | None = None
        self._answering = False
        self.facts = Facts(id="facts")
        self.diff = DiffView()
        keys = heard(table, Place.REVIEW, Place.DIFF)
        self.bar = KeyBar(keys, self._label, keep=("later", "help"))

    def compose(self) -> ComposeResult:
        """Facts, diff, keys."""
        with Vertical(classes="box review"):
            yield self.facts
            yield self.diff
            yield self.bar

    def on_mount(self) -> None:
        """Show what is known at once; read the rest."""
        self.diff.focus()
        self._redraw()
        self.run_worker(self._read(), group="read", exit_on_error=True)

    def on_resize(self, event: events.Resize) -> None:
        """All of a small terminal is for the review."""
        layout = layout_of(event.size.width, event.size.height)
        self.query_one(".box").set_class(layout is not Layout.WIDE, "full")
        self._redraw()

    @property
    def number(self) -> int:
        """Of the version on the table."""
        return self._scene.selected if self._scene.selected is not None else -1

    @property
    def decidable(self) -> bool:
        """Whether an answer is wanted, an engine can take it, and the whole diff is on screen."""
        snapshot = self._scene.snapshot
        waits = snapshot.pending == self.number and snapshot.state in ALIVE
        return waits and self._shown is not None and not self._answering

    def show_scene(self, scene: Scene) -> None:
        """Follow the session: what was decided elsewhere can no longer be decided here."""
        keep = structs.replace(
            scene, selected=self.number, record=self._scene.record, parent=self._scene.parent
        )
        decided = self._scene.snapshot.pending == self.number != scene.snapshot.pending
        self._scene = keep
        self._redraw()
        if decided:
            self.run_worker(self._read(), group="read", exclusive=True)

    # -- reading --------------------------------------------------------------------------------

    async def _read(self) -> None:
        version = version_of(self._scene.snapshot, self.number)
        if version is None:
            self._refuse("this version is not committed yet; its gate still runs")
            return
        try:
            record = await self._reading.record(version.number, version.answer)
            above = version_of(self._scene.snapshot, record.parent)
            parent = await self._reading.record(above.number, above.answer) if above else None
            before, after = await asyncio.to_thread(self._client.sources, self.number)
        except (WorkbenchError, OSError) as fault:
            self._refuse(str(fault))
            return
        self._scene = structs.replace(self._scene, record=record, parent=parent)
        compared = await asyncio.to_thread(prepare, before, after, self._scene.look)
        if self._shown is None:
            self.diff.show(compared, self._scene.look)
        self._shown = Shown(before, after)
        self._entitle_diff(compared.difference.added, compared.difference.removed)
        self._redraw()

    def _entitle_diff(self, added: int, removed: int) -> None:
        look, record = self._scene.look, self._scene.record
        names = (
            f"v{self.number}"
            if record is None or record.parent is None
            else f"v{record.parent} → v{self.number}"
        )
        changes = len(self.diff.painted.hunks)
        self.diff.border_title = dressed(
            line(
                (f"{names}  ", look.muted), (f"+{added} ", look.good), (f"-{removed} ", look.bad),
                (f"in {changes} change{'' if changes == 1 else 's'}", look.muted),
            ),
            look,
        )  # fmt: skip

    # -- drawing --------------------------------------------------------------------------------

    def _redraw(self) -> None:
        look = self._scene.look
        self.facts.show_scene(self._scene)
        self.facts.refresh(layout=True)
        self.bar.show_scene(self._scene)
        box = self.query_one(".box")
        version = self._scene.version
        title = version.title if version is not None else ""
        verb = "Review" if self._scene.snapshot.pending == self.number else "Look at"
        box.border_title = dressed(line(f"{verb} v{self.number}: {title}"), look)
        box.border_subtitle = dressed(line(*self._writes(look)), look)

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
        if self.size.width < 100:
            return [(f"accept: {ref} and main; veto: {ref} only", look.muted)]
        return [
            (
                f"accept: commit refs/{ref}, main moves to it; veto: commit it, main stays",
                look.muted,
            )
        ]

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

        hint = "the proposer reads it before the next step"
        self.app.push_screen(Reason(f"Veto v{self.number}", hint, self._scene.look), reasoned)

    def _answer(self, answer: Answer, reason: str) -> None:
        self._answering = True
        self.bar.redraw()
        self.run_worker(self._send(answer, reason), group="answer")

    async def _send(self, answer: Answer, reason: str) -> None:
        try:
            says = await self._client.decide(self.number, answer, reason)
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
        if self._shown is not None:
            text = patch(self._shown.before, self._shown.after, "a/kernel.py", "b/kernel.py")
            self.post_message(self.Copied(text))

    def action_help(self) -> None:
        """The keys of the review."""
        self.post_message(self.HelpWanted())
