"""Learning from an expert: a walk backwards that survives its process, written as a session."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from workbench.engine.create import note_seed, noted_seed, toolchain
from workbench.engine.devices import choose_place
from workbench.engine.history import History
from workbench.engine.opening import lock_path
from workbench.engine.workplace import Emit, SessionWorkplace
from workbench.errors import WorkbenchError
from workbench.gate.candidate import read_candidate
from workbench.gate.records import GateReport
from workbench.lineage.chain import transitions
from workbench.lineage.records import Ended, Line, Termination, WalkLimits
from workbench.lineage.walk import Walk
from workbench.problems.load import load_problem, shipped_problems
from workbench.problems.records import Problem
from workbench.session.journal import Journal, Tail
from workbench.session.lock import EngineLock
from workbench.session.names import check_name, fresh_name
from workbench.session.records import Budget, Mode, SessionSettings
from workbench.session.store import SessionStore

Listen = Callable[[Line], None]


class LearnRequest(Struct, frozen=True, kw_only=True):
    """What a person asked `learn` for."""

    expert: Path | None
    """None: the one that is shipped with the problem."""
    problem: str
    device: str
    target: str
    name: str
    sessions: Path


def create_lineage(request: LearnRequest) -> Path:
    """Make the lineage session's repository and return its folder; nothing is judged yet.

    Raises WorkbenchError for an expert, problem, device, name or folder that cannot be used.
    """
    problem = load_problem(request.problem)
    path = request.expert or shipped_expert(problem)
    expert = read_candidate(path).source
    place = choose_place(request.device, request.target)
    name = request.name or fresh_name(f"{problem.name}-lineage", request.sessions)
    settings = SessionSettings(
        name=check_name(name),
        kind="lineage",
        problem=problem.name,
        mode=Mode.AUTO,
        device=place.device,
        device_index=place.index,
        target=place.target,
        budget=Budget(),
        created=_now(),
        toolchain=toolchain(),
    )
    store = SessionStore.create(request.sessions / name, settings, problem.source, problem.sidecar)
    note_seed(store, expert, request.expert or Path(f"shipped expert of {problem.name}"))
    return store.folder


class ExpertRow(Struct, frozen=True, kw_only=True):
    """A shipped expert in a list."""

    problem: str
    says: str
    """The first line of its file."""
    path: str


def shipped_experts() -> tuple[ExpertRow, ...]:
    """Every problem that ships an expert, by name."""
    problems = [load_problem(name) for name in shipped_problems()]
    return tuple(
        ExpertRow(problem=one.name, says=_first_line(one.expert), path=str(one.expert))
        for one in problems
        if one.expert is not None
    )


def _first_line(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("\n")[0].strip('"').rstrip(".")


def shipped_expert(problem: Problem) -> Path:
    """The expert that is shipped with a problem. Raises WorkbenchError where there is none."""
    if problem.expert is not None:
        return problem.expert
    names = ", ".join(row.problem for row in shipped_experts())
    raise WorkbenchError(
        f"no expert is shipped with {problem.name}",
        todo=f"workbench learn EXPERT --problem {problem.name}; shipped with: {names}",
    )


def continued(path: Path, sessions: Path) -> Path:
    """The session in which a walk goes on: the given one, or a new one where that met a limit.

    A new one takes over every line that was judged; the first one stays as it is. Raises
    WorkbenchError when the walk is complete, or the session cannot be read.
    """
    store = SessionStore.open(path)
    lines = walked(walk_path(store))
    last = lines[-1] if lines else None
    if not isinstance(last, Ended):
        return path
    if last.how is Termination.COMPLETE:
        raise WorkbenchError(f"the walk of {path.name} is complete: {last.says}", where=str(path))
    settings, given = store.settings(), noted_seed(store)
    if given is None:
        raise WorkbenchError(f"session {path.name} has no expert", where=str(path))
    problem = store.problem()
    name = fresh_name(f"{settings.problem}-lineage", sessions)
    settings = structs.replace(settings, name=name, created=_now())
    new = SessionStore.create(sessions / name, settings, problem.source, problem.sidecar)
    note_seed(new, given[0], Path(given[1]))
    with Journal(walk_path(new)) as journal:
        note = _noting(journal, _unheard)
        for line in lines[:-1]:
            note(line)
    return new.folder


def _unheard(line: Line) -> None:
    """Lines that were told when they were judged."""


def learn(path: Path, limits: WalkLimits, listen: Listen, tell: Emit) -> Ended:
    """Walk the session's expert back to a naive kernel, or go on where a walk was interrupted.

    Every attempt is on disk before the next begins; the commits are written at the end, naive
    first. Raises WorkbenchError when the session is no lineage, another process holds it, or the
    expert fails its own gate or has nothing to take out.
    """
    store = SessionStore.open(path)
    settings = store.settings()
    given = noted_seed(store)
    if settings.kind != "lineage" or given is None:
        raise WorkbenchError(
            f"session {path.name} is a {settings.kind}, not a lineage",
            where=str(path),
            todo="workbench learn EXPERT --problem PROBLEM begins one",
        )
    with (
        EngineLock(lock_path(store), session=path.name),
        Journal(walk_path(store)) as journal,
    ):
        store.recover()
        workplace = SessionWorkplace(store, settings, given, tell)
        before = walked(walk_path(store))
        walk = Walk(_Bench(workplace), limits, _noting(journal, listen), before)
        try:
            ended = walk.run(*given)
        except WorkbenchError as fault:
            if walk.lines:
                raise
            kept = f"session {path.name} keeps the expert and its problem, and no transition"
            raise WorkbenchError(
                fault.what, where=fault.where, todo=f"{fault.todo}; {kept}"
            ) from fault
        finally:
            workplace.close()
        _commit(store, walk.lines)
    return ended


class _Bench:
    """The session's own gate, as a walk asks it."""

    def __init__(self, workplace: SessionWorkplace) -> None:
        self._workplace = workplace

    def judge(self, source: str) -> GateReport:
        return self._workplace.gate(source, None, 0)

    def beside(self, source: str, state: str, before: GateReport, floor: float) -> GateReport:
        return self._workplace.gate_beside(source, state, before, floor)


def walk_path(store: SessionStore) -> Path:
    """The journal of a walk: what is not in git yet."""
    return store.state / "walk.jsonl"


def walked(path: Path) -> list[Line]:
    """The lines of an interrupted or finished walk. Raises WorkbenchError for lines of no walk."""
    decoder = msgspec.json.Decoder(Line)
    try:
        return [decoder.decode(line) for line in Tail(path).poll()]
    except msgspec.DecodeError as fault:
        raise WorkbenchError(
            f"the walk's journal cannot be read: {fault}",
            where=str(path),
            todo="begin another session; nothing of this one is in git before its walk has ended",
        ) from fault


def _noting(journal: Journal, listen: Listen) -> Listen:
    def note(line: Line) -> None:
        journal.append(lambda _number: msgspec.json.encode(line), durable=True)
        listen(line)

    return note


def _commit(store: SessionStore, lines: list[Line]) -> None:
    """Write the chain and what hangs off it; what an interrupted call has written stays."""
    there = {version.number for version in store.overview().versions}
    history = History()
    for transition, source in transitions(lines, _now()):
        history = history.plus(transition)
        if transition.number not in there:
            best = history.best is transition
            store.record(transition, source, best=best)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
