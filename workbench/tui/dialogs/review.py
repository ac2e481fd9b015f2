"""The review of one version: its facts, the whole diff and, while it waits, the decision."""

from typing import ClassVar

from msgspec import structs
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.message import Message

from workbench.errors import WorkbenchError
from workbench.session.records import Answer
from workbench.tui.dialogs.ask import Confirm, Reason
from workbench.tui.dialogs.facts import Facts
from workbench.tui.dialogs.following import Prepared
from workbench.tui.dialogs.table import Table, lay_out
from workbench.tui.diff.rows import hunk_starts, patch
from workbench.tui.diff.view import DiffView
from workbench.tui.draw import Part, line
from workbench.tui.feed import Reading
from workbench.tui.keys import Key, Place, bindings, keys_of
from workbench.tui.look import dressed
from workbench.tui.panes.keybar import KeyBar
from workbench.tui.scene import ALIVE, Scene, outline, version_of
from workbench.tui.scope import Scope
from workbench.tui.typeahead import unread
from workbench.tui.writes import writes

_DECIDES = frozenset({"accept", "veto", "scope", "edit"})


class Review(Prepared):
    """Shows a version; only `a`, `A`, `E`, or `v` with a reason decides, once all is on screen.

    It opens before the version has been read, so that keys typed meanwhile reach it.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings(Place.REVIEW)

    class Copied(Message):
        """The user wants to copy the diff."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class HelpWanted(Message):
        """The user wants to see the keys of the review."""

    class Asked(Message):
        """The user wants to know why this step was chosen."""

        def __init__(self, scene: Scene) -> None:
            super().__init__()
            self.scene = scene

    class Widened(Message):
        """The user also accepted the card's later steps."""

        def __init__(self, scope: Scope) -> None:
            super().__init__()
            self.scope = scope

    class Edited(Message):
        """The user wants to change the candidate in an editor."""

        def __init__(self, table: Table) -> None:
            super().__init__()
            self.table = table

    def __init__(self, reading: Reading, scene: Scene, number: int, keys: tuple[Key, ...]) -> None:
        super().__init__()
        self._reading = reading
        self.number = number
        self._table: Table | None = None
        self._scene = self._about(scene)
        self._answering = False
        self._titles: tuple[object, ...] = ()
        self.facts = Facts(id="facts")
        self.diff = DiffView(scene.look)
        keys_here = keys_of(keys, Place.REVIEW, Place.DIFF)
        self.bar = KeyBar(keys_here, self._label, keep=("later", "help"))

    def _about(self, scene: Scene) -> Scene:
        """The scene with the version under review selected."""
        table = self._table
        return structs.replace(
            scene,
            selected=self.number,
            record=table.record if table is not None else None,
            parent=table.parent if table is not None else None,
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
        self._entitle()
        self.run_worker(self._read(), group="table", exclusive=True)

    async def _read(self) -> None:
        """Read the version and show it; close the review if it cannot be read."""
        snapshot = self._scene.snapshot
        try:
            table = await lay_out(self._reading, snapshot, self.number, self._scene.look)
        except (WorkbenchError, OSError) as fault:
            self.notify(str(fault), severity="error", timeout=10, markup=False)
            self.ready.set()
            self.dismiss()
            return
        self._table = table
        self._scene = self._about(self._scene)
        self.diff.compare(table.compared)
        self._redraw()
        self.ready.set()

    def on_resize(self) -> None:
        """Adapt the title to the width of the border."""
        self._entitle()

    @property
    def waits(self) -> bool:
        """Whether the version waits for a decision and an engine runs that can take it."""
        snapshot = self._scene.snapshot
        asked = snapshot.pending == self.number and snapshot.state in ALIVE
        return asked and not self._answering

    @property
    def decidable(self) -> bool:
        """Whether it may be decided: it waits, and all of it is on screen."""
        return self.waits and self._table is not None

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
        if version is None or self._table is None:
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
        if not width or self.facts.lines_for(self._scene, width) != height:
            self.facts.refresh(layout=True)
        self.bar.show_scene(self._scene)
        self._entitle()

    def _entitle(self) -> None:
        look, table, snapshot = self._scene.look, self._table, self._scene.snapshot
        version = self._scene.version
        verb = "Review" if snapshot.pending == self.number else "Look at"
        title = f"{verb} v{self.number}: {version.title if version is not None else ''}"
        what = writes(snapshot, self.number, self.app.size.width - 8)
        if (title, what, table) == self._titles:
            return
        self._titles = (title, what, table)
        box = self.query_one(".box")
        box.border_title = dressed(line(title), look)
        box.border_subtitle = dressed(line((what, look.muted)), look)
        self.diff.border_title = dressed(line(*self._counted(table)), look)

    def _counted(self, table: Table | None) -> list[Part]:
        look = self._scene.look
        if table is None:
            return [("reading…", look.faint)]
        parent = "" if table.record.parent is None else f"v{table.record.parent} → "
        difference = table.compared.difference
        changes = len(hunk_starts(difference.rows))
        return [
            (f"{parent}v{self.number}  ", look.muted),
            (f"+{difference.added} ", look.good),
            (f"-{difference.removed} ", look.bad),
            (f"in {changes} change{'' if changes == 1 else 's'}", look.muted),
        ]

    def _label(self, key: Key, scene: Scene) -> str:
        if key.id in _DECIDES and not self.decidable:
            return ""
        if key.id == "later" and scene.snapshot.pending != self.number:
            return "Close"
        return key.label

    def _refuse(self, why: str) -> None:
        self.facts.refusal = " ".join(why.split())
        self._redraw()

    # -- answering ------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 -- Textual's signature
        """Allow decisions only while one is awaited; a veto also before all is on screen."""
        if action == "veto":
            return self.waits
        return action not in _DECIDES or (self.decidable and not unread(self.app))

    def action_accept(self) -> None:
        """Accept what is on screen."""
        self._answer(Answer.ACCEPTED, "")

    def action_scope(self) -> None:
        """Accept this version and the card's later steps, after asking."""
        card = self._scene.version.card if self._scene.version is not None else ""
        if not card:
            self._refuse("this version comes from no card, so there are no later steps to accept")
            return
        scope = Scope(card=card, since=self.number)

        def agreed(yes: bool | None) -> None:
            if yes and self.decidable:
                self._answer(Answer.ACCEPTED, "", widen=scope)

        says = (
            f"Accept v{self.number} and, without asking, every later step of card {card} that "
            "passes its gate, until a gate fails or this screen closes?"
        )
        self.app.push_screen(Confirm("Accept more than this step", says, self._scene.look), agreed)

    def action_veto(self) -> None:
        """Ask for the reason first."""

        def reasoned(reason: str | None) -> None:
            if reason and self.waits:
                self._answer(Answer.VETOED, reason)
            elif reason:
                self._refuse(f"v{self.number} no longer waits; nothing was sent")

        hint = "the proposer reads it before the next step"
        self.app.push_screen(Reason(f"Veto v{self.number}", hint, self._scene.look), reasoned)

    def _answer(self, answer: Answer, reason: str, *, widen: Scope | None = None) -> None:
        self._answering = True
        self.bar.redraw()
        self.run_worker(self._send(answer, reason, widen), group="answer")

    async def _send(self, answer: Answer, reason: str, widen: Scope | None) -> None:
        try:
            says = await self._reading.client.decide(self.number, answer, reason)
        except WorkbenchError as fault:
            self._answering = False
            self._refuse(f"{fault.what}. {fault.todo}" if fault.todo else fault.what)
            return
        if widen is not None:
            self.post_message(self.Widened(widen))
        self.notify(says or f"v{self.number} {answer}", markup=False)
        self.dismiss()

    def action_edit(self) -> None:
        """Change the candidate in an editor; the engine gates the result."""
        if self._table is not None:
            self.post_message(self.Edited(self._table))

    def action_later(self) -> None:
        """Close the review; the version keeps waiting."""
        self.dismiss()

    # -- the rest -------------------------------------------------------------------------------

    def action_copy(self) -> None:
        """The diff as a patch."""
        if self._table is not None:
            table = self._table
            text = patch(table.before, table.after, "a/kernel.py", "b/kernel.py")
            self.post_message(self.Copied(text))

    def action_why(self) -> None:
        """What the policy saw and how it chose."""
        self.post_message(self.Asked(self._scene))

    def action_help(self) -> None:
        """The keys of the review."""
        self.post_message(self.HelpWanted())
