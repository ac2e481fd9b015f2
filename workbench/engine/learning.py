"""Learning from an expert: a walk backwards that survives its process, written as a session."""

import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from msgspec import Struct, structs

from workbench.agents.exchange import JOURNAL
from workbench.agents.roles.remover import About
from workbench.engine import events as ev
from workbench.engine.beside import Beside
from workbench.engine.create import note_seed, noted_seed, toolchain
from workbench.engine.devices import choose_place, here
from workbench.engine.interrupting import Interruption, Stopped
from workbench.engine.laying import problem_of
from workbench.engine.opening import lock_path
from workbench.engine.suggesting import Suggesting
from workbench.engine.talks import ready_models
from workbench.engine.unwritten import unwritten, walk_path
from workbench.engine.walks import (
    Listen,
    close_walk,
    noting,
    now,
    unheard,
    walked,
    write_chain,
)
from workbench.engine.workplace import Emit, SessionWorkplace
from workbench.errors import WorkbenchError
from workbench.gate.candidate import read_candidate
from workbench.gate.records import GateReport
from workbench.kernels.target import target
from workbench.lineage.bench import Looked
from workbench.lineage.records import Attempt, Ended, Line, Termination, WalkLimits
from workbench.lineage.restored import operations
from workbench.lineage.walk import Walk
from workbench.measure.records import Speed
from workbench.problems.load import load_problem, shipped_problems
from workbench.problems.records import Problem
from workbench.session.code import read as read_code
from workbench.session.journal import Journal
from workbench.session.lock import EngineLock
from workbench.session.numbered import create_named, create_numbered
from workbench.session.records import Budget, Mode, Proposer, SessionSettings
from workbench.session.store import SessionStore
from workbench.skills.library import Library


class LearnRequest(Struct, frozen=True, kw_only=True):
    """What a person asked `learn` for."""

    expert: Path | None
    """None: the one that is shipped with the problem."""
    problem: str
    device: str
    target: str
    name: str
    sessions: Path
    proposer: Proposer = "skills"
    """`both`: a model is asked for what no inverse finds."""
    usd: float | None = None
    """Dollars for the model."""


def create_lineage(request: LearnRequest) -> Path:
    """Make the lineage session's repository and return its folder; nothing is judged yet.

    Raises WorkbenchError for an expert, problem, device, name or folder that cannot be used.
    """
    problem = load_problem(request.problem)
    if request.proposer != "skills":
        # Keys and prices are missed before anything is paid for on the GPU.
        ready_models(Budget(usd=request.usd))
    path = request.expert or shipped_expert(problem)
    expert = read_candidate(path).source
    place = choose_place(request.device, request.target)
    stem = f"{problem.name}-lineage"
    settings = SessionSettings(
        name=request.name or stem,
        kind="lineage",
        problem=problem.name,
        mode=Mode.AUTO,
        device=place.device,
        device_index=place.index,
        target=place.target,
        proposer=request.proposer,
        budget=Budget(usd=request.usd),
        created=now(),
        toolchain=toolchain(),
    )
    texts = problem.source, problem.sidecar
    store = create_named(request.sessions, request.name, stem, settings, *texts)
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
    """The session in which a walk goes on: the given one, or a new one where that has its chain.

    A new one takes over every line that was judged; the first one stays as it is. One whose chain
    is not whole yet is given back, for that comes first. Raises WorkbenchError when the walk is
    complete, or the session cannot be read.
    """
    store = SessionStore.open(path)
    lines = walked(walk_path(store))
    last = lines[-1] if lines else None
    if not isinstance(last, Ended) or unwritten(store):
        return path
    if last.how is Termination.COMPLETE:
        raise WorkbenchError(
            f"the walk of {path.name} is complete: {last.says}",
            where=str(path),
            todo=f"`workbench log {path.name}` shows it; `workbench skills induce {path.name} "
            "--out DIR` makes cards of it",
        )
    settings, given = store.settings(), noted_seed(store)
    if given is None:
        raise WorkbenchError(
            f"session {path.name} has no expert",
            where=str(path),
            todo="`workbench learn EXPERT --problem PROBLEM` begins a walk of its own",
        )
    settings, problem = _here(settings, path), store.problem()
    settings = structs.replace(settings, created=now())
    stem = f"{settings.problem}-lineage"
    new = create_numbered(sessions, stem, settings, problem.source, problem.sidecar)
    note_seed(new, given[0], Path(given[1]))
    if (talks := store.state / JOURNAL).exists():
        shutil.copyfile(talks, new.state / JOURNAL)
    with Journal(walk_path(new)) as journal:
        note = noting(journal, unheard)
        for line in lines[:-1]:
            note(line)
    return new.folder


def learn(path: Path, limits: WalkLimits, listen: Listen, tell: Emit) -> Ended:
    """Walk the session's expert back to a naive kernel, or continue an interrupted walk.

    Every attempt is on disk before the next begins. The commits are written when the walk ends, the
    simplest kernel first, whatever ends it: a limit; SIGINT, SIGTERM or SIGHUP (`interrupted`); or
    a fault, which is raised again afterwards. Raises WorkbenchError when the session is not a
    lineage, another process holds it, or the expert fails its own gate or has nothing to take out;
    KeyboardInterrupt when a signal came before anything was judged.
    """
    store = SessionStore.open(path)
    settings, expert = _lineage_here(store, path)
    with (
        EngineLock(lock_path(store), session=path.name),
        Journal(walk_path(store)) as journal,
        Interruption() as interruption,
    ):
        store.recover()
        workplace = SessionWorkplace(store, settings, expert, tell)
        before = walked(walk_path(store))
        bench = _Bench(store, workplace, interruption)
        ideas = _ideas(store, settings, before, tell)
        walk = Walk(bench, limits, noting(journal, listen), before, ideas)
        try:
            ended = walk.run(*expert)
            write_chain(store, walk.lines)
        except Stopped as stopped:
            closed = close_walk(store, journal, listen, f"by {stopped}")
            if closed is None:
                raise KeyboardInterrupt from stopped
            ended = closed
        except BaseException as fault:
            closed = close_walk(store, journal, listen, f"{type(fault).__name__}: {fault}")
            if closed is None and isinstance(fault, WorkbenchError):
                raise _nothing_learned(fault, path) from fault
            raise
        finally:
            workplace.close()
            if ideas is not None:
                ideas.close()
    return ended


def _lineage_here(store: SessionStore, path: Path) -> tuple[SessionSettings, tuple[str, str]]:
    """A lineage's settings for this machine, and its expert as source and path.

    Raises WorkbenchError for any other session, and as `_here`.
    """
    settings, expert = store.settings(), noted_seed(store)
    if settings.kind != "lineage":
        raise WorkbenchError(
            f"session {path.name} is a {settings.kind}, not a lineage",
            where=str(path),
            todo="workbench learn EXPERT --problem PROBLEM begins one",
        )
    if expert is None:
        raise WorkbenchError(
            f"the walk of {path.name} was made elsewhere: its chain is here, its journal is not",
            where=str(path),
            todo=f"its kernels can be read; workbench learn EXPERT --problem {settings.problem} "
            "begins another walk",
        )
    return _here(settings, path), expert


def _ideas(
    store: SessionStore, settings: SessionSettings, lines: Sequence[Line], tell: Emit
) -> Suggesting | None:
    """Who is asked for what no inverse covers; None in a walk that asks no model."""
    if settings.proposer == "skills":
        return None

    def about() -> About:
        return About(
            problem=problem_of(store, settings.problem, store.state / "about"),
            library=Library({}),
            target=target(settings.target),
        )

    attempts = [line for line in lines if isinstance(line, Attempt)]
    return Suggesting(
        store.state,
        settings.budget,
        about,
        attempts,
        lambda says: tell(ev.Note(level="warning", says=says)),
    )


def _here(settings: SessionSettings, path: Path) -> SessionSettings:
    todo = f"`workbench learn --session {path.name} --stop` writes the chain there is"
    return here(settings, path, todo=f"go on where there is one; {todo}")


def _nothing_learned(fault: WorkbenchError, path: Path) -> WorkbenchError:
    kept = f"session {path.name} keeps the expert and its problem, and no transition"
    todo = f"{fault.todo}; {kept}" if fault.todo else kept
    return WorkbenchError(fault.what, where=fault.where, todo=todo)


class _Bench:
    """The session's own gate, as a walk asks it; a signal gives up what is being judged."""

    def __init__(
        self, store: SessionStore, workplace: SessionWorkplace, interruption: Interruption
    ) -> None:
        self._store = store
        self._workplace = workplace
        self._may = interruption.interruptible

    def judge(self, source: str) -> GateReport:
        with self._may():
            return self._workplace.gate_alone(source)

    def look(self, source: str, state: str, before: GateReport, floor: float | None) -> Looked:
        with self._may():
            return _Looked(self._workplace.beside(source, state, before, floor), self._may)

    def operations(self, report: GateReport) -> Mapping[str, int]:
        names = [launch.code_sha256 for launch in report.launches]
        kept = read_code(self._store.git, names)
        if not all(name in kept and kept[name].ttgir for name in names):
            return {}
        found: Counter[str] = Counter()
        for name in names:
            found.update(operations(kept[name].ttgir))
        return found

    def pairs(self, source: str, state: str) -> Speed | None:
        with self._may():
            return self._workplace.pairs(source, state)


class _Looked:
    """One kernel before that gate."""

    def __init__(self, beside: Beside, may: Callable[[], AbstractContextManager[None]]) -> None:
        self.report = beside.report
        self._beside = beside
        self._may = may

    def judged(self) -> GateReport:
        with self._may():
            return self._beside.judged()

    def proven(self) -> GateReport:
        with self._may():
            return self._beside.proven()
