"""All that the panes draw at one moment: snapshot, selection, and how old the news is."""

from bisect import bisect_left

from msgspec import Struct

from workbench.engine.view import Snapshot, State, Version
from workbench.gate.records import Outcome, Stage, StageReport, Verdict
from workbench.session.records import Answer, Transition
from workbench.skills.records import Plan
from workbench.tui.look import Look

ALIVE = frozenset({State.STARTING, State.RUNNING, State.WAITING, State.PAUSED})
"""States in which an engine holds the session."""
WORKING = frozenset({State.STARTING, State.RUNNING})
"""States in which time passes on the budget and news is expected."""
RESUMABLE = frozenset({State.FAILED, State.LOST, State.STOPPED, State.SAVED})
"""States in which a run can be gone on with."""
MET = frozenset({State.BUDGET, State.FINISHED})
"""States in which a run ended because there was no more to do within its limits."""
STALE_SECONDS = 30.0
"""Without news for this long while the engine works, the header says so; ours."""


class Scene(Struct, frozen=True, kw_only=True):
    """One moment as the panes need it."""

    snapshot: Snapshot
    look: Look = Look()
    selected: int | None = None
    """The version that the person looks at; None when there is none yet."""
    record: Transition | None = None
    """Of the selected version; None while it is read, or while its gate still runs."""
    parent: Transition | None = None
    """Of the selected version's parent."""
    reading: bool = False
    """Whether the selection still moves, or a record of it is on its way."""
    age: float = 0.0
    """Seconds since the snapshot came."""
    at_work: float = 0.0
    """Seconds of work that the snapshot's cost does not hold yet."""
    trouble: str = ""
    """Why no more news comes, where the feed broke."""
    scope: str = ""
    """The card whose steps are accepted until a gate fails; empty: every step is asked about."""
    mark: int | None = None
    """The version that others are compared with."""

    @property
    def working(self) -> bool:
        """Whether the engine is at work, so that clocks run."""
        return self.snapshot.state in WORKING

    @property
    def resumable(self) -> bool:
        """Whether an engine can be started on the session."""
        return self.snapshot.kind == "run" and self.snapshot.state in RESUMABLE

    @property
    def met(self) -> bool:
        """Whether the run ended at its limits or its goal, so that larger ones take it further."""
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
        """The selected version's plan, as far as it is known."""
        if self.record is not None:
            return self.record.plan
        return self.snapshot.plan if self.selected == self.snapshot.current else None

    @property
    def elapsed(self) -> float:
        """Seconds of work over all runs of the session, up to now."""
        return self.snapshot.elapsed_seconds + self.at_work


def version_of(snapshot: Snapshot, number: int | None) -> Version | None:
    """The committed version of that number."""
    if number is None:
        return None
    at = bisect_left(snapshot.versions, number, key=lambda version: version.number)
    if at < len(snapshot.versions) and snapshot.versions[at].number == number:
        return snapshot.versions[at]
    return None


def row_of(snapshot: Snapshot, number: int | None) -> Version | None:
    """The version of that number, committed or still in the gate."""
    known = version_of(snapshot, number)
    if known is None and number is not None and number == snapshot.current:
        return under_way(snapshot)
    return known


def under_way(snapshot: Snapshot) -> Version | None:
    """A row for the step whose gate still runs, which git does not hold yet."""
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
    """Every version, newest first, the one under way on top."""
    running = under_way(snapshot)
    newest_first = snapshot.versions[::-1]
    return newest_first if running is None else (running, *newest_first)


def outline(scene: Scene) -> tuple[object, ...]:
    """What a dialog over the main screen may depend on: all but meters and clocks."""
    snapshot = scene.snapshot
    standing = (snapshot.state, snapshot.pending, snapshot.versions)
    return scene.look, *standing, scene.selected, scene.scope, scene.mark


def failing(report: StageReport) -> bool:
    """Whether the stage stopped the candidate."""
    return report.outcome in {Outcome.FAILED, Outcome.UNPROVEN}
