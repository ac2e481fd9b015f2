"""The app that shows one session: actions that steer the run, and ways to leave."""

import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, ClassVar

from msgspec import structs
from textual.binding import BindingType
from textual.command import Provider

from workbench.engine.sessions import sessions_folder
from workbench.engine.view import State
from workbench.engine.wishes import Choose, Submit
from workbench.errors import WorkbenchError
from workbench.tui import clipboard
from workbench.tui.dialogs.ask import Confirm, Reason
from workbench.tui.dialogs.review import Review
from workbench.tui.editor import draft, open_editor, read_back
from workbench.tui.feed import Client
from workbench.tui.handing_in import hand_in
from workbench.tui.keys import Place, bindings
from workbench.tui.leave import leaving
from workbench.tui.looking import Looking
from workbench.tui.moves import Question, branch_question, undo_question
from workbench.tui.palette import Cards, Commands, OtherSessions, Versions
from workbench.tui.scene import ALIVE


class WorkbenchApp(Looking):
    """Shows one session. `run()` returns the session's state when the user left."""

    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {
        Commands,
        Versions,
        Cards,
        OtherSessions,
    }
    BINDINGS: ClassVar[list[BindingType]] = bindings(Place.BOARD)

    def __init__(
        self,
        client: Client,
        *,
        folder: Path | None = None,
        says: str = "",
        **options: Any,  # noqa: ANN401 -- Showing's own
    ) -> None:
        """`folder` has the other sessions; `says` is shown as an error after the first frame."""
        super().__init__(client, **options)
        self.folder = folder or sessions_folder(None)
        self._says = says

    def tell_faults(self) -> None:
        """Also show what went wrong before this screen opened."""
        super().tell_faults()
        if self._says:
            self.notify(self._says, severity="error", timeout=12, markup=False)

    # -- steering -------------------------------------------------------------------------------

    def action_pause(self) -> None:
        """Pause after the running step, or go on; starts the engine of a saved session."""
        if self.scene.trouble:
            self.connect()
            return
        if self.scene.met:
            self._more()
            return
        if self.scene.resumable:
            self.go_to(Path(self.scene.snapshot.path), start=True)
            return
        paused = self.scene.snapshot.state is State.PAUSED
        self.wish(self._client.go() if paused else self._client.pause())

    def _more(self) -> None:
        """Ask for larger limits, then start a new engine."""
        from workbench.tui.dialogs.more import More

        def agreed(path: Path | None) -> None:
            if path is not None:
                self.go_to(path, start=True)

        self.push_screen(More(self.scene), agreed)

    def action_stop(self) -> None:
        """End the run after the running step, after asking."""
        if self.scene.snapshot.state not in ALIVE:
            self.notify("this session has no running engine", severity="warning")
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self.wish(self._client.stop())

        says = "End the run after the running step? Every version is kept."
        self.push_screen(Confirm("Stop", says, self.look), answered)

    def action_next_step(self) -> None:
        """Choose the next step in place of the run's own choice."""
        if self.scene.snapshot.kind != "run":
            self.notify("a lineage is a record of a walk; it has no next step", severity="warning")
            return
        from workbench.tui.dialogs.next_step import NextStep

        def chosen(wish: Choose | None) -> None:
            if wish is not None:
                self.wish(self._client.choose(wish))

        self.push_screen(NextStep(self.scene, self.settings.keymap.table), chosen)

    def action_hint(self) -> None:
        """Tell the model something."""

        def said(text: str | None) -> None:
            if text:
                self.wish(self._client.hint(text))

        hint, example = "every prompt from the next step on includes it", "keep two rows a program"
        refusal = "say what the model should know, or esc to go back"
        ask = Reason("Hint", hint, self.look, refusal=refusal, placeholder=example)
        self.push_screen(ask, said)

    def action_undo(self) -> None:
        """Take the last accepted step back, after asking."""
        self._move(undo_question(self.scene.snapshot), self._client.undo)

    def action_branch(self) -> None:
        """Go on from the selected version, after asking."""
        self._move(branch_question(self.scene.snapshot, self.scene.selected), self._client.branch)

    def _move(self, question: Question, wish: Callable[[int], Coroutine[Any, Any, str]]) -> None:
        if question.refusal:
            self.notify(question.refusal, severity="warning", markup=False)
            return

        async def moved() -> str:
            says = await wish(question.number)
            # Without an engine no news arrives, so the change is read here.
            self._arrive(self._client.snapshot())
            return says

        def answered(yes: bool | None) -> None:
            if yes:
                self.wish(moved())

        self.push_screen(Confirm(question.title, question.says, self.look), answered)

    def on_review_widened(self, event: Review.Widened) -> None:
        """Also accept a card's later steps."""
        self.widen(event.scope)

    def action_end_scope(self) -> None:
        """Ask about every step again."""
        if self.scene.scope:
            self.widen(None)
            self.notify("you are asked about every step again", markup=False)

    def on_review_edited(self, event: Review.Edited) -> None:
        """Let the user edit the candidate, then ask whether to gate the edit."""
        table = event.table
        try:
            path = draft(self._client.name, table.number, table.after)
            open_editor(self, path)
            source = read_back(path)
        except WorkbenchError as fault:
            self.report(fault)
            return
        if source == table.after:
            self.notify(f"nothing was changed; v{table.number} keeps waiting", markup=False)
            return

        def agreed(yes: bool | None) -> None:
            if not yes:
                self.notify(f"nothing was sent; your edit is in {path}", markup=False)
                return
            if isinstance(self.screen, Review):
                self.screen.dismiss()
            card = table.record.plan.card if table.record.plan is not None else ""
            origin = f"edit of v{table.number} by hand"
            wish = Submit(source=source, origin=origin, skill=card)
            self.wish(hand_in(self._client, table.number, wish))

        says = f"Veto v{table.number} and gate your edit as the next step? It is kept in {path}."
        self.push_screen(Confirm("Gate your edit", says, self.look), agreed)

    def go_to(self, path: Path, *, start: bool = False) -> None:
        """Show another session instead; the run of this one continues."""
        left = leaving(self.scene.snapshot)
        self.exit(structs.replace(left, path=path, start=start))

    # -- other sessions, skills -----------------------------------------------------------------

    def action_sessions(self) -> None:
        """Show the list of sessions, from which another one can be opened."""
        # Imported when needed, so that the first frame does not wait for it.
        from workbench.tui.dialogs.sessions import Choice, Sessions

        def chosen(choice: Choice | None) -> None:
            if choice is not None:
                self.go_to(choice.path, start=choice.start)

        self.push_screen(Sessions(self.scene, self.settings.keymap.table, self.folder), chosen)

    def action_skills(self) -> None:
        """Show the skills that steps are made from."""
        from workbench.tui.dialogs.skills import Skills

        self.push_screen(Skills(self.scene, self.settings.keymap.table))

    # -- copying and leaving --------------------------------------------------------------------

    def action_copy(self) -> None:
        """Copy what the focused pane offers."""
        self._copy(self.board.pane.copied())

    def on_review_copied(self, event: Review.Copied) -> None:
        """Copy the review's diff."""
        self._copy(event.text)

    def _copy(self, text: str) -> None:
        if not text:
            self.notify("there is nothing to copy here", severity="warning")
            return
        sequence = clipboard.osc52(text, os.environ)
        if sequence and self._driver is not None:
            self._driver.write(sequence)
        try:
            path = clipboard.save(text)
        except (OSError, WorkbenchError):
            path = None
        self.notify(clipboard.told(text, path, sent=bool(sequence)), markup=False)

    def action_leave(self) -> None:
        """Leave the screen; the run continues."""
        self.exit(leaving(self.scene.snapshot))

    async def action_quit(self) -> None:
        """Do the same when Textual itself wants to quit."""
        self.action_leave()
