"""Feeds the gate hostile input; it must answer in time and leave nothing behind.

Damaged files go through the whole gate. Hostile bodies go straight to the stages that run them,
past the policy that would stop most of them, so that isolation is tested too. Files that are none
are put where a candidate, a problem or its sidecar should be.
"""

import contextlib
import importlib.util
import os
import random
import shutil
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Self

from msgspec import Struct, structs

from workbench import paths
from workbench.bench.fuzz_doors import (
    AS_A_PATH,
    SIDECARS,
    SIZED,
    candidate_texts,
    hostile_problems,
    problem_texts,
)
from workbench.bench.fuzz_plants import plants
from workbench.bench.fuzz_texts import DAMAGES, OURS, PLANTED, PROBLEM, RIGHT, hostile
from workbench.errors import WorkbenchError
from workbench.gate import compile as compiling
from workbench.gate.candidate import Candidate, read_candidate
from workbench.gate.correctness import stage as correctness
from workbench.gate.correctness.cases import Effort
from workbench.gate.correctness.stage import CorrectnessSettings, ShapeEffort
from workbench.gate.judge import JOB_MODULES, GateSettings, judge
from workbench.gate.policy import check as policy
from workbench.gate.problem.inspect import JOB_MODULES as INSPECTING
from workbench.gate.problem.inspect import inspect_problem
from workbench.gate.problem.records import ProblemReport
from workbench.isolation.processes import descendants
from workbench.isolation.workshop import Workshop
from workbench.problems.load import load_problem
from workbench.problems.records import Precision, Problem, Shape

_READ_SECONDS = 5.0
_SETTLE_SECONDS = 5.0
"""Seconds within which killed processes must be gone."""
_PLACES = ("/tmp", "/dev/shm", "/var/tmp", "/", "/root", "/home")  # noqa: S108 -- looked at, not used


class Tried(Struct, frozen=True, kw_only=True):
    """One trial of a candidate."""

    kind: str
    """`damaged`, `planted`, `compiled`, `run`, `read` or `inspected`."""
    name: str
    said: str
    """The verdict or outcome with its reason."""
    seconds: float
    wrong: tuple[str, ...] = ()
    """What went wrong; empty when all is well."""


class Fuzz:
    """Trials in one workshop. A context manager; not thread-safe."""

    def __init__(self, seed: int, *, call_seconds: float = 4.0) -> None:
        """`call_seconds`: deadline of one call of a hostile body."""
        self._call_seconds = call_seconds
        self.rng = random.Random(seed)  # noqa: S311 -- to repeat a round, not for secrets
        self.problem = Problem(
            name="fuzz",
            path=Path("fuzz.py"),
            source=PROBLEM,
            shapes=(Shape(name="file"),),
            precision=Precision.IEEE,
        )
        self._workshop = Workshop(preload=(*JOB_MODULES, *INSPECTING))
        self._facts: ProblemReport | None = None
        self._watched = _Watched(self._workshop)

    def __enter__(self) -> Self:
        # Also warms every forkserver that will be asked, so that trials are compared alike.
        report = self._judged(RIGHT.encode())
        if not report.startswith("accepted"):
            raise RuntimeError(f"the undamaged candidate is {report}")
        self._watched.remember()
        return self

    def __exit__(self, *_: object) -> None:
        self._workshop.close()

    def damaged(self) -> Tried:
        """Try a correct file, damaged in some way, in the whole gate."""
        name, damage = self.rng.choice(list(DAMAGES.items()))
        content = damage(self.rng, RIGHT.encode())
        return self._tried("damaged", name, 30.0, lambda: self._judged(content))

    def planted(self, name: str, source: str) -> Tried:
        """A correct file that also reads or computes on the host, through the whole gate."""
        tried = self._tried("planted", name, 30.0, lambda: self._judged(source.encode()))
        if tried.said.startswith("accepted"):
            return structs.replace(tried, wrong=(*tried.wrong, "it was accepted"))
        return tried

    def compiled(self, name: str) -> Tried:
        """Try a hostile body in the compile stage, past the policy."""
        candidate = Candidate(content=hostile()[name].encode("utf-8", "surrogatepass"))

        def stage() -> str:
            full = self._problem_facts().full
            report = compiling.run(
                candidate, full, "sm90", self._workshop, seconds=self._call_seconds
            ).report
            return f"{report.outcome}: {report.says}"

        return self._tried("compiled", name, self._call_seconds, stage)

    def run(self, name: str) -> Tried:
        """Try a hostile body in the correctness stage, past the policy."""
        candidate = Candidate(content=hostile()[name].encode("utf-8", "surrogatepass"))
        settings = CorrectnessSettings(
            shapes=(ShapeEffort(shape="file", effort=Effort.FEW),),
            call_seconds=self._call_seconds,
            open_seconds=self._call_seconds,
        )

        def stage() -> str:
            report = correctness.run(candidate, self.problem, settings, self._workshop)
            return f"{report.outcome}: {report.says}"

        # Opening, and up to three calls that each take just less than allowed.
        return self._tried("run", name, 4 * self._call_seconds, stage)

    def all_hostile(self) -> Iterator[Tried]:
        """Try every hostile body in each stage that runs it, in an order given by the seed."""
        names = list(hostile())
        self.rng.shuffle(names)
        for name in names:
            yield self.run(name)
            yield self.compiled(name)
        for name, source in plants(self.rng):
            yield self.planted(name, source)
        for name in hostile_problems():
            yield self.inspected(name)
        yield from self.all_read()

    def inspected(self, name: str) -> Tried:
        """Try a hostile problem file where problems are inspected, in a worker of their own."""
        problem = structs.replace(self.problem, source=hostile_problems()[name])

        def stage() -> str:
            seen = inspect_problem(problem, self._workshop, seconds=self._call_seconds)
            return f"inspected, {len(seen.findings)} findings"

        # Described and examined, each once; a lost worker is replaced.
        return self._tried("inspected", name, 4 * self._call_seconds, _or_its_words(stage))

    def all_read(self, only: str = "") -> Iterator[Tried]:
        """Try every file that is none, as a candidate, as a problem and as a problem's sidecar.

        `only` is how the names of those begin that are tried.
        """
        with tempfile.TemporaryDirectory() as place:
            doors = [one for one in _doors() if one[0].startswith(only)]
            for number, (name, put, read) in enumerate(doors):
                folder = Path(place) / str(number)
                folder.mkdir()
                put(folder)
                yield self._tried("read", name, _READ_SECONDS, _or_its_words(partial(read, folder)))
                shutil.rmtree(folder)

    def _judged(self, content: bytes) -> str:
        settings = GateSettings(target="sm90", rung=1)
        report = judge(
            Candidate(content=content), self.problem, self._problem_facts, settings, self._workshop
        )
        return f"{report.verdict} at {report.stage}: {report.code or report.says}"

    def _problem_facts(self) -> ProblemReport:
        if self._facts is None:
            self._facts = inspect_problem(self.problem, self._workshop)
        return self._facts

    def _tried(self, kind: str, name: str, allowed: float, trial: Callable[[], str]) -> Tried:
        """Run a trial. Faults are: raising, exceeding the limit, and leaving something behind."""
        began = time.monotonic()
        wrong = []
        try:
            said = trial()
        except Exception:  # noqa: BLE001 -- the gate never raises for what a candidate does
            said, wrong = "raised", [f"the gate raised: {traceback.format_exc(limit=-3)}"]
        seconds = time.monotonic() - began
        # Starting workers and killing them is not the candidate's time; machines are slow.
        if seconds > 3 * allowed + 30:
            wrong.append(f"{seconds:.1f} s for what may take {allowed:g} s")
        return Tried(
            kind=kind,
            name=name,
            said=said[:200],
            seconds=seconds,
            wrong=(*wrong, *self._watched.changes()),
        )


def _doors() -> Iterator[tuple[str, Callable[[Path], object], Callable[[Path], str]]]:
    """What is tried by reading alone: a name, what puts it into a folder, what reads it there."""
    for name, made in AS_A_PATH.items():
        yield f"candidate: {name}", partial(_at, "k.py", made), _judged_as_text
        yield f"problem: {name}", partial(_at, "p.py", made), _loaded
        yield f"sidecar: {name}", partial(_beside, partial(_at, "p.toml", made)), _loaded
    for name, content in candidate_texts().items():
        yield f"candidate: {name}", partial(_write, "k.py", content), _judged_as_text
    for name, content in problem_texts().items():
        yield f"problem: {name}", partial(_write, "p.py", content), _loaded
    for name, text in SIDECARS.items():
        content = text if isinstance(text, bytes) else text.encode()
        yield f"sidecar: {name}", partial(_beside, partial(_write, "p.toml", content)), _loaded


def _at(name: str, made: Callable[[Path], object], folder: Path) -> None:
    made(folder / name)


def _write(name: str, content: bytes, folder: Path) -> None:
    (folder / name).write_bytes(content)


def _beside(put: Callable[[Path], object], folder: Path) -> None:
    _write("p.py", SIZED.encode(), folder)
    put(folder)


def _judged_as_text(folder: Path) -> str:
    said = policy.check_bytes(read_candidate(folder / "k.py").content)
    return f"{said.outcome}: {said.says}"


def _loaded(folder: Path) -> str:
    return f"a problem of {len(load_problem(folder / 'p.py').shapes)} shapes"


def _or_its_words(trial: Callable[[], str]) -> Callable[[], str]:
    """The trial, in which a refusal in the workbench's own words is an answer like any other."""

    def answered() -> str:
        try:
            return trial()
        except WorkbenchError as fault:
            return f"refused: {fault.what}"

    return answered


class _Watched:
    """What a trial must leave unchanged."""

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop
        self._processes: set[int] = set()
        specs = map(importlib.util.find_spec, OURS)
        self._files = [Path(spec.origin) for spec in specs if spec and spec.origin]

    def remember(self) -> None:
        """Record the present state as the expected one."""
        self._processes = set(descendants(os.getpid()))

    def changes(self) -> Iterator[str]:
        """What has changed."""
        until = time.monotonic() + _SETTLE_SECONDS
        while (left := self._strangers()) and time.monotonic() < until:
            time.sleep(0.05)
        if left:
            yield f"processes that were left behind: {sorted(left)}"
        if scratch := self._workshop.scratch_left():
            yield f"scratch folders that were left behind: {scratch}"
        folders = {str(file.parent) for file in self._files}
        home = paths.home_folder()
        places = [Path.cwd(), *(() if home is None else (home,))]
        for place in (*_PLACES, *folders, *places):
            planted = Path(place) / PLANTED
            if planted.exists():
                yield f"a file outside of the scratch folder: {planted}"
                planted.unlink()
        for file in self._files:
            if PLANTED.encode() in file.read_bytes():
                yield f"{file} was written to"

    def _strangers(self) -> set[int]:
        now = {pid for pid in descendants(os.getpid()) if _alive(pid)}
        return now - self._processes


def _alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
        return state not in "ZX"
    return False
