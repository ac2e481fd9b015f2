"""Keeps what the screen knows of a session: news, clocks, the selection, and its records."""

from collections.abc import Callable

from workbench.engine.view import LogLine, Snapshot, State, Version
from workbench.errors import WorkbenchError
from workbench.session.records import Answer, Transition
from workbench.tui.feed import Client, Reading
from workbench.tui.look import Look
from workbench.tui.scene import WORKING, Scene, rows, version_of
from workbench.tui.scope import Scope


class Moments:
    """Builds the current scene whenever it is asked for; draws and decides nothing."""

    def __init__(self, client: Client, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.reading = Reading(client)
        self.snapshot = client.snapshot()
        self.chosen: int | None = _opened_at(self.snapshot)
        """The version that the user selected; None follows the newest."""
        self.settled = True
        """Whether the selection is at rest; while it moves, only the graph follows it."""
        self.trouble = ""
        """Why no more news arrives; empty while it does."""
        self.scope: Scope | None = None
        """The steps that the user accepted in advance."""
        self.mark: int | None = None
        """The version that others are compared with."""
        self._came = self._work_began = clock()
        self._unreadable: set[tuple[int, Answer]] = set()

    def arrive(self, snapshot: Snapshot) -> list[LogLine]:
        """Take a newer snapshot; returns its new log lines that should be shown at once."""
        before, self.snapshot = self.snapshot, snapshot
        told = before.log[-1].at if before.log else ""
        news = [line for line in snapshot.log if line.news and line.at > told]
        self._came = self._clock()
        counted = snapshot.elapsed_seconds != before.elapsed_seconds
        if counted or before.state not in WORKING:
            self._work_began = self._came
        return news

    def pick(self, number: int | None) -> None:
        """Select another version; None follows the newest."""
        self.chosen, self.settled = number, False

    @property
    def selected(self) -> int | None:
        """The selected version: the chosen one, else the newest row."""
        if version_of(self.snapshot, self.chosen) is not None:
            return self.chosen
        return next((version.number for version in rows(self.snapshot)), None)

    def scene(self, look: Look) -> Scene:
        """The current scene."""
        now, snapshot, selected = self._clock(), self.snapshot, self.selected
        version = version_of(snapshot, selected)
        return Scene(
            snapshot=snapshot,
            look=look,
            selected=selected,
            record=self._known(selected),
            parent=self._known(version.parent if version is not None else None),
            reading=not self.settled or bool(self.unread()),
            age=now - self._came,
            at_work=now - self._work_began if snapshot.state in WORKING else 0.0,
            trouble=self.trouble,
            scope=self.scope.card if self.scope is not None else "",
            mark=self.mark,
        )

    def _known(self, number: int | None) -> Transition | None:
        version = version_of(self.snapshot, number)
        return None if version is None else self.reading.known(version.number, version.answer)

    def unread(self) -> list[Version]:
        """The selected version and its parent, if their records are still to be read."""
        version = version_of(self.snapshot, self.selected)
        parent = version_of(self.snapshot, version.parent) if version is not None else None
        return [
            wanted
            for wanted in (version, parent)
            if wanted is not None
            and (wanted.number, wanted.answer) not in self._unreadable
            and self._known(wanted.number) is None
        ]

    async def read(self) -> None:
        """Read the unread records, now that the selection is at rest.

        Raises WorkbenchError or OSError when one cannot be read; it is not tried again.
        """
        self.settled = True
        for wanted in self.unread():
            try:
                await self.reading.record(wanted.number, wanted.answer)
            except (WorkbenchError, OSError):
                self._unreadable.add((wanted.number, wanted.answer))
                raise


_AT_REST = frozenset({State.SAVED, State.FINISHED, State.BUDGET})


def _opened_at(snapshot: Snapshot) -> int | None:
    """The version to select at first: the best one of a run that is over, else None."""
    over = snapshot.kind == "run" and snapshot.state in _AT_REST and snapshot.pending is None
    return snapshot.best if over else None
