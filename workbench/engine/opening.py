"""A session folder read into a snapshot: versions from git, the rest from the end of the log."""

from pathlib import Path

import msgspec
from msgspec import structs

from workbench.engine.events import AnyEvent
from workbench.engine.fold import fold
from workbench.engine.unwritten import unwritten
from workbench.engine.view import Snapshot, State, Version
from workbench.measure.baselines import Baselines
from workbench.measure.records import Kind, Speed
from workbench.problems.made import size_made
from workbench.session.journal import Tail, last_lines
from workbench.session.lock import holder, socket_path
from workbench.session.names import spoken
from workbench.session.reader import Overview, SessionReader
from workbench.session.records import Answer, Cost, SessionSettings
from workbench.session.trailers import Summary

_TAIL_EVENTS = 400
"""Events read when a session opens: the newest step, and more than the log pane keeps."""
_LIVE = (State.STARTING, State.RUNNING, State.WAITING, State.PAUSED)


def events_path(store: SessionReader) -> Path:
    """The log of events; beside git's own files, so that the person's folder holds kernels only."""
    return store.state / "events.jsonl"


def holds_path(store: SessionReader) -> Path:
    """What an engine spent of its GPUs since its last record (`engine.holds`)."""
    return store.state / "held.json"


def lock_path(store: SessionReader) -> Path:
    """Held by the engine that owns the session."""
    return store.state / "engine.lock"


class Opened:
    """One session, open for reading. Raises WorkbenchError when it cannot be read."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.store = SessionReader(self.path)
        self._settings: SessionSettings = self.store.settings()
        self._baselines: Baselines | None = None
        self.last_seq = 0
        """Number of the newest event in the snapshot."""

    def engine_pid(self) -> int | None:
        """Id of the engine that holds the session now; None when none does."""
        found = holder(lock_path(self.store))
        return None if found is None else found.pid

    def socket_path(self) -> Path:
        """Where its engine serves."""
        found = holder(lock_path(self.store))
        return Path(found.socket) if found and found.socket else socket_path(self.path)

    def history(self, after: int = 0) -> list[AnyEvent]:
        """Every event of the log past `after`."""
        return _decode(Tail(events_path(self.store)).poll(), after)

    def snapshot(self) -> Snapshot:
        """The session as it stands, from git and the newest events."""
        settings = self._settings
        empty = Snapshot(
            revision=0,
            name=settings.name if self.path.name == settings.name else self.path.name,
            path=str(self.path),
            kind=settings.kind,
            problem=settings.problem,
            size=size_made(self.store.problem().sidecar),
            device=settings.device,
            target=settings.target,
            mode=settings.mode.value,
            state=State.SAVED,
            budget=settings.budget,
        )
        events = _decode(last_lines(events_path(self.store), _TAIL_EVENTS), 0)
        self.note(events)
        return self._standing(self._with_versions(fold(empty, events)))

    def note(self, events: list[AnyEvent]) -> None:
        """Remember how far the log has been read."""
        self.last_seq = max((e.seq for e in events), default=self.last_seq)

    def refreshed(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with versions, best and cost read from git again."""
        return self._with_versions(snapshot)

    def _standing(self, snapshot: Snapshot) -> Snapshot:
        """Correct the state by whether an engine is really running."""
        pid = self.engine_pid()
        if pid is not None:
            state = snapshot.state if snapshot.state in _LIVE else State.STARTING
            return structs.replace(snapshot, engine_pid=pid, state=state)
        if snapshot.state in _LIVE:
            says = f"it left no message; workbench resume {spoken(self.path)} goes on"
            return structs.replace(snapshot, state=State.LOST, says=says, engine_pid=None)
        return structs.replace(snapshot, engine_pid=None)

    def _with_versions(self, snapshot: Snapshot) -> Snapshot:
        overview = self.store.overview()
        summaries = overview.versions
        pending = next((s.number for s in summaries if s.answer is Answer.PENDING), None)
        spent = Cost()
        for cost in (one.cost for some in (summaries, overview.spends) for one in some):
            spent = spent.plus(cost)
        return structs.replace(
            snapshot,
            versions=_versions(overview),
            baselines=self._baselines_of(overview),
            best=overview.best,
            incumbent=overview.main,
            unread=tuple(f"{one.ref}: {one.says}" for one in overview.unread),
            unwritten=unwritten(self.store) if self._settings.kind == "lineage" else 0,
            pending=pending,
            steps=max(snapshot.steps, sum(1 for s in summaries if s.parent is not None)),
            # Replies that led to no transition yet are in the log's figures only; both only grow.
            spent=_larger(snapshot.spent, spent),
            gpu_seconds=_by_purpose(overview),
            elapsed_seconds=max(snapshot.spent.wall_seconds, spent.wall_seconds),
        )

    def _baselines_of(self, overview: Overview) -> Baselines | None:
        """The first kernel's baselines; read once, since its record never changes once decided."""
        first = next((s for s in overview.versions if s.parent is None), None)
        if first is None or first.time is None or first.time.kind is not Kind.MEASURED:
            return None
        if self._baselines is None:
            self._baselines = self.store.transition(first.number).gate.baselines
        return self._baselines


def _by_purpose(overview: Overview) -> dict[str, float]:
    """GPU-seconds of seeds, of steps, of last looks, and of work that led to no version."""
    found: dict[str, float] = {}
    rows = [("seed" if one.parent is None else "steps", one.cost) for one in overview.versions]
    for name, cost in (*rows, *((one.counted_as, one.cost) for one in overview.spends)):
        if cost.gpu_seconds:
            found[name] = found.get(name, 0.0) + cost.gpu_seconds
    return found


def _larger(one: Cost, other: Cost) -> Cost:
    fields = Cost.__struct_fields__
    return Cost(**{name: max(getattr(one, name), getattr(other, name)) for name in fields})


def _decode(lines: list[bytes], after: int) -> list[AnyEvent]:
    """Events of whole lines; a line that is none (written by a newer version) is left out."""
    decoder = msgspec.json.Decoder(AnyEvent)
    events: list[AnyEvent] = []
    for line in lines:
        try:
            event = decoder.decode(line)
        except msgspec.DecodeError:
            continue
        if event.seq > after:
            events.append(event)
    return events


def _versions(overview: Overview) -> tuple[Version, ...]:
    line = set(overview.line())
    roots: dict[int, Summary] = {}
    for summary in overview.versions:  # by number: a parent comes before its children
        found = None if summary.parent is None else roots.get(summary.parent)
        roots[summary.number] = found or summary
    return tuple(
        Version(
            number=s.number,
            parent=s.parent,
            commit=s.commit,
            title=s.title,
            verdict=s.verdict,
            stage=s.stage,
            code=s.code,
            answer=s.answer,
            speed_vs_seed=_versus_seed(s, roots[s.number]),
            speed_vs_parent=s.speed,
            time=s.time,
            card=s.card,
            best=s.number == overview.best,
            accepted_line=s.number in line,
            ladder=s.ladder,
            undone=s.number in overview.undone,
        )
        for s in overview.versions
    )


def _versus_seed(summary: Summary, root: Summary) -> Speed | None:
    """Against the seed of its line: what was measured so, or the ratio of two modeled times.

    Two measured times of different runs make no ratio: clocks and neighbours moved in between.
    """
    if summary.versus_seed is not None:
        return summary.versus_seed
    if summary.time is None or summary.time.kind is not Kind.MODELED:
        return None
    if root.time is None or root.time.kind is not Kind.MODELED:
        return None
    return Speed(kind=Kind.MODELED, ratio=root.time.microseconds / summary.time.microseconds)
