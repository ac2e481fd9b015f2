"""The scene: everything that the panes draw at one moment."""

from bisect import bisect_left

from msgspec import Struct

from workbench.engine.view import Snapshot, State, Version
from workbench.errors import WorkbenchError
from workbench.gate.records import Outcome, Stage, StageReport, Verdict
from workbench.session.records import Answer, Transition
from workbench.skills.records import Plan
from workbench.tui.look import Look

ALIVE = frozenset({State.STARTING, State.RUNNING, State.WAITING, State.PAUSED})
"""States in which an engine runs on the session."""
WORKING = frozenset({State.STARTING, State.RUNNING})
"""States in which the budget's time runs and news is expected."""
RESUMABLE = frozenset({State.FAILED, State.LOST, State.STOPPED, State.SAVED})
"""States from which a run can be resumed as it is."""
MET = frozenset({State.BUDGET, State.FINISHED})
"""States in which a run ended because it reached its limits or its goal."""
STALE_SECONDS = 30.0
"""Seconds without news from a working engine after which the header says so (ours)."""


class Scene(Struct, frozen=True, kw_only=True):
    """Everything that the panes draw at one moment."""

    snapshot: Snapshot
    look: Look = Look()
    selected: int | None = None
    """The selected version; None when there is none yet."""
    record: Transition | None = None
    """Record of the selected version; None while it is being read or gated."""
    parent: Transition | None = None
    """Record of the selected version's parent; None while it is being read, or without one."""
    reading: bool = False
    """Whether the selection is moving, or its records are being read."""
    age: float = 0.0
    """Seconds since the snapshot arrived."""
    at_work: float = 0.0
    """Seconds of work that the snapshot does not count yet."""
    trouble: str = ""
    """Why no more news arrives, if the feed broke; else empty."""
    scope: str = ""
    """The card whose steps are accepted until a gate fails; empty when every step is asked."""
    mark: int | None = None
    """The version that others are compared with."""

    @property
    def working(self) -> bool:
        """Whether the engine is working, so that clocks run."""
        return self.snapshot.state in WORKING

    @property
    def resumable(self) -> bool:
        """Whether an engine can be started on the session."""
        return self.snapshot.kind == "run" and self.snapshot.state in RESUMABLE

    @property
    def met(self) -> bool:
        """Whether the run ended at its limits or its goal, and can go on with larger ones."""
        return self.snapshot.kind == "run" and self.snapshot.state in MET

    @property
    def stale(self) -> bool:
        """Whether news is overdue."""
        return self.working and self.age >= STALE_SECONDS

    @property
    def version(self) -> Version | None:
        """The selected version's row."""
        return row_of(self.snapshot, self.selected)

    @property
    def plan(self) -> Plan | None:
        """The selected version's plan, if it is known."""
        if self.record is not None:
            return self.record.plan
        return self.snapshot.plan if self.selected == self.snapshot.current else None

    @property
    def elapsed(self) -> float:
        """Seconds of work over all runs of the session, up to now."""
        return self.snapshot.elapsed_seconds + self.at_work


def version_of(snapshot: Snapshot, number: int | None) -> Version | None:
    """The committed version of that number; None when there is none."""
    if number is None:
        return None
    at = bisect_left(snapshot.versions, number, key=lambda version: version.number)
    if at < len(snapshot.versions) and snapshot.versions[at].number == number:
        return snapshot.versions[at]
    return None


def committed(snapshot: Snapshot, number: int) -> Version:
    """The version of that number. Raises WorkbenchError when it is not committed yet."""
    version = version_of(snapshot, number)
    if version is None:
        raise WorkbenchError(
            f"v{number} is not committed yet",
            where=f"session {snapshot.name}",
            todo="look again when its gate has ended",
        )
    return version


def row_of(snapshot: Snapshot, number: int | None) -> Version | None:
    """The version of that number, committed or still in the gate."""
    known = version_of(snapshot, number)
    if known is None and number is not None and number == snapshot.current:
        return under_way(snapshot)
    return known


def under_way(snapshot: Snapshot) -> Version | None:
    """A row for the step that is in the gate and not committed yet; None when there is none."""
    number = snapshot.current
    if number is None or version_of(snapshot, number) is not None:
        return None
    plan = snapshot.plan
    seed = not snapshot.versions
    at = next((s.stage for s in snapshot.strip if s.running), Stage.POLICY)
    return Version(
        number=number,
        parent=snapshot.incumbent,
        commit="",
        title="seed" if seed else plan.title if plan else "next step",
        verdict=Verdict.UNPROVEN,
        stage=at,
        code="",
        answer=Answer.PENDING,
        speed_vs_seed=None,
        speed_vs_parent=None,
        card=plan.card if plan else "",
    )


def rows(snapshot: Snapshot) -> tuple[Version, ...]:
    """All versions, newest first, including the one in the gate."""
    running = under_way(snapshot)
    newest_first = snapshot.versions[::-1]
    return newest_first if running is None else (running, *newest_first)


def outline(scene: Scene) -> tuple[object, ...]:
    """The part of a scene that dialogs depend on: everything but meters and clocks."""
    snapshot = scene.snapshot
    standing = (snapshot.state, snapshot.pending, snapshot.versions)
    return scene.look, *standing, scene.selected, scene.scope, scene.mark


def failing(report: StageReport) -> bool:
    """Whether the stage stopped the candidate."""
    return report.outcome in {Outcome.FAILED, Outcome.UNPROVEN}
