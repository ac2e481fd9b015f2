"""The list of sessions: open, resume, start, rename, put aside, export, import, delete."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from msgspec import Struct
from textual.binding import BindingType

from workbench.engine.housekeeping import ARCHIVE, archive, archived, delete, rename, restore
from workbench.engine.sessions import SessionRow, export, import_file, list_sessions
from workbench.engine.view import State
from workbench.errors import WorkbenchError
from workbench.tui.dialogs.ask import Confirm, Reason
from workbench.tui.dialogs.listed import Listed
from workbench.tui.dialogs.new_run import NewRun
from workbench.tui.dialogs.skills import Skills
from workbench.tui.keys import Key, Place, bindings
from workbench.tui.panes.listing import Row
from workbench.tui.scene import Scene


class Choice(Struct, frozen=True, kw_only=True):
    """The session to show next."""

    path: Path
    start: bool = False
    """Whether to start an engine on it."""


_STYLES: dict[str, str] = {
    State.WAITING: "accent",
    State.RUNNING: "accent",
    State.STARTING: "accent",
    State.FAILED: "bad",
    State.LOST: "bad",
    State.BUDGET: "warn",
    State.FINISHED: "good",
}
"""Role of a row's first cell by the session's state."""


class Sessions(Listed[Choice]):
    """Answers with the session to show; None to stay."""

    place = Place.SESSIONS
    heading = "Sessions"
    heads = ("name", "state", "best", "problem", "device", "spent", "created")
    empty = (
        "There is no session yet.",
        "",
        "n   start one: choose a problem, a device and limits, no flag to know",
        "i   bring one in from a bundle; sessions/ in the project has recorded ones",
        "S   look at the skills that steps are made from",
        "esc leave",
    )
    keep = ("list-back", "help")
    BINDINGS: ClassVar[list[BindingType]] = bindings(Place.SESSIONS)

    def __init__(self, scene: Scene, keys: tuple[Key, ...], folder: Path) -> None:
        super().__init__(scene, keys)
        self._folder = folder
        self._aside = False

    def rows(self) -> tuple[Row, ...]:
        """The sessions, newest first; also those that were put aside, if wanted."""
        found = list_sessions(self._folder)
        if self._aside:
            found += list_sessions(self._folder / ARCHIVE)
        return tuple(_row(one) for one in found)

    @property
    def _path(self) -> Path | None:
        row = self.listing.current
        return None if row is None else Path(row.key)

    # -- going somewhere ------------------------------------------------------------------------

    def act(self) -> None:
        """Open the session, running or saved."""
        if self._path is not None:
            self.dismiss(Choice(path=self._path))

    def action_resume(self) -> None:
        """Open the session and start its engine."""
        if self._path is not None:
            self.dismiss(Choice(path=self._path, start=True))

    def action_new(self) -> None:
        """Start a run."""

        def made(path: Path | None) -> None:
            if path is not None:
                self.dismiss(Choice(path=path, start=True))

        self.app.push_screen(NewRun(self.scene, self._folder), made)

    def action_skills(self) -> None:
        """Show the skills that steps are made from."""
        self.app.push_screen(Skills(self.scene, self._keys))

    # -- keeping house --------------------------------------------------------------------------

    def _do(self, says: str, work: Callable[[], object]) -> None:
        """Do `work` in a thread, then show `says` and read the list again."""

        async def run() -> None:
            try:
                await asyncio.to_thread(work)
            except (WorkbenchError, OSError) as fault:
                self.refuse(fault)
            else:
                self.notify(says, markup=False)
                self.read_again()

        self.run_worker(run(), group="house")

    def _ask(self, title: str, hint: str, value: str, then: Callable[[str], None]) -> None:
        def answered(text: str | None) -> None:
            if text:
                then(text)

        refusal = "type it, or esc to go back"
        ask = Reason(title, hint, self.look, value=value, refusal=refusal, placeholder="")
        self.app.push_screen(ask, answered)

    def action_rename(self) -> None:
        """Rename the session, after asking for the name."""
        path = self._path
        if path is not None:
            title, hint = f"Rename {path.name}", "a-z, 0-9, dots and hyphens"
            self._ask(
                title, hint, path.name,
                lambda name: self._do(f"{path.name} is now {name}", lambda: rename(path, name)),
            )  # fmt: skip

    def action_archive(self) -> None:
        """Put the session aside, or bring it back."""
        path = self._path
        if path is None:
            return
        if archived(path):
            self._do(f"{path.name} is back", lambda: restore(path))
        else:
            self._do(f"{path.name} is put aside; h shows it", lambda: archive(path))

    def action_aside(self) -> None:
        """Show or hide the sessions that were put aside."""
        self._aside = not self._aside
        self.read_again()

    def action_export(self) -> None:
        """Export the session into a file, after asking for its path."""
        path = self._path
        if path is None:
            return
        target = Path.cwd() / f"{path.name}.bundle"

        def write(name: str) -> None:
            file = Path(name).expanduser()
            self._do(f"{file} holds session {path.name}", lambda: export(path, file))

        self._ask(f"Export {path.name}", "a file that is not there yet", str(target), write)

    def action_import(self) -> None:
        """Import a session from a file, after asking for its path."""

        def read(name: str) -> None:
            file = Path(name).expanduser()
            self._do(f"{file.name} is a session now", lambda: import_file(file, self._folder, ""))

        self._ask("Import a bundle", "nothing in it is run", "", read)

    def action_delete(self) -> None:
        """Delete the session for good, after asking."""
        path = self._path
        if path is None:
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self._do(f"{path.name} is deleted", lambda: delete(path))

        says = f"Delete {path.name}, every version and the files in {path}? There is no way back."
        self.app.push_screen(Confirm("Delete", says, self.look), answered)


def _row(one: SessionRow) -> Row:
    path = Path(one.path)
    state = f"{one.state}, put aside" if archived(path) else one.state
    cells = (one.name, state, one.best, one.problem, one.device, one.spent, one.created[:16])
    return Row(key=one.path, cells=cells, style=_STYLES.get(one.state, ""))
