"""A session's candidates before the gate, heard only from the moment that their turn has come."""

import hashlib
import os
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from workbench.engine.climbing import Climb, Found, pruned_by
from workbench.engine.history import History, modeled_speed
from workbench.engine.parts import GivenUp, Judged
from workbench.engine.refusing import refused
from workbench.engine.twins import same_work, twin_of
from workbench.errors import WorkbenchError
from workbench.gate.correctness.cases import SEED_BYTES
from workbench.gate.judge import Sitting, Told
from workbench.gate.records import Finding, GateReport, Stage, Verdict
from workbench.measure.records import Speed, Time
from workbench.session.records import Transition
from workbench.skills.records import Plan

_SECRET_BYTES = 32


class Ear:
    """Keeps what a sitting tells until somebody attends, then passes everything on in order."""

    def __init__(self, tell: Callable[[Told], None]) -> None:
        self._tell = tell
        self._lock = threading.Lock()
        self._kept: list[Told] = []
        self._attended = False
        self._given_up = False

    def __call__(self, told: Told) -> None:
        """Hear it. Raises GivenUp when nobody will ever attend."""
        with self._lock:
            if self._given_up:
                raise GivenUp
            if self._attended:
                self._tell(told)
            else:
                self._kept.append(told)

    def attend(self) -> None:
        """Pass on what was kept, and the rest as it comes."""
        with self._lock:
            self._attended = True
            for told in self._kept:
                self._tell(told)
            self._kept.clear()

    def give_up(self) -> None:
        """Whoever tells something from now on is ended."""
        self._given_up = True


class Procedure(Struct, frozen=True, kw_only=True):
    """How a session's candidate is gated: as what, against whom, and by what."""

    plan: Plan | None
    history: History
    """As it is, or would be, when its turn has come."""
    parent: Transition | None
    needs_gpu: bool
    go_on: Callable[[Sitting], GateReport]
    """The gate after compile."""
    modeled: Callable[[Sitting], Time | None]
    """A time that may rank what was compiled; None where none may."""
    completed: Callable[[GateReport], GateReport]
    """The report as the session keeps it."""


class SessionSitting:
    """One candidate: `begin` does all of its gate that needs no GPU, rung by rung."""

    def __init__(self, sitting: Sitting, ear: Ear, procedure: Procedure, climb: Climb) -> None:
        self._sitting = sitting
        self._ear = ear
        self._procedure = procedure
        self._climb = climb
        self._static: Found | None = None
        self._pruned: Finding | None = None
        self._report: GateReport | None = None

    def begin(self) -> None:
        """Policy, compile and the modeled time; without a GPU everything that a step takes."""
        began = time.monotonic()
        self._sitting.begin()
        report = self._sitting.report()
        right = report.verdict is Verdict.ACCEPTED
        modeled = self._procedure.modeled(self._sitting) if right else None
        static = Found(
            report=report,
            speed=self._modeled_speed(modeled),
            time=modeled,
            wall_seconds=time.monotonic() - began,
        )
        self._static = static
        visit = self._climb.reached("static", static)
        if right and visit.action == "prune":
            self._pruned = pruned_by(visit)
        elif not self._procedure.needs_gpu and not self._twin(report, self._procedure.history):
            self._report = self._procedure.go_on(self._sitting)

    def attend(self) -> None:
        """Tell the session what it tells."""
        self._ear.attend()

    def finish(self, history: History) -> Judged:
        """What is left of it. Its twin is looked for now: work that was begun beside it is known.

        Raises WorkbenchError when no worker can start.
        """
        static = self._static
        if static is None:
            raise RuntimeError("a sitting is begun before it is finished")
        if (twin := self._twin(static.report, history)) is not None:
            finding = same_work(twin)
            self._climb.pruned("static", static, finding)
            return self._cut(Stage.COMPILE, finding)
        if self._pruned is not None:
            return self._cut(Stage.PROFILE, self._pruned)
        report = self._report or self._procedure.go_on(self._sitting)
        report = self._procedure.completed(report)
        self._climb.gated(report, needs_gpu=self._procedure.needs_gpu)
        return Judged(report=report, rungs=self._climb.visits)

    def give_up(self) -> None:
        """It ends when it next has something to tell: after a stage, or after a call within one."""
        self._ear.give_up()

    @property
    def gpu_seconds(self) -> float:
        """None before its turn: what is begun needs no GPU."""
        return 0.0 if self._report is None else self._report.gpu_seconds

    def _twin(self, report: GateReport, history: History) -> Transition | None:
        return twin_of(report, self._procedure.plan, history)

    def _cut(self, stage: Stage, finding: Finding) -> Judged:
        report = refused(self._sitting.report(), stage, finding, rung=0)
        self._ear(Told(stage, report.report(stage)))
        return Judged(report=report, rungs=self._climb.visits[:1])

    def _modeled_speed(self, modeled: Time | None) -> Speed | None:
        """Against the parent, by its own modeled time; None where either has none."""
        parent = self._procedure.parent
        before = (
            next((v.time for v in parent.rungs if v.rung == "static"), None) if parent else None
        )
        return None if before is None or modeled is None else modeled_speed(before, modeled)


def session_secret(state: Path) -> bytes:
    """What a session's draws for its own edits are derived from; made once, for its owner's eyes.

    With it a step that is begun before its turn, or begun again after a crash, is judged on the
    same sample as if nothing had happened. Candidates run where it cannot be read; what a person,
    a model or an outside agent wrote is judged on fresh draws all the same. Raises WorkbenchError
    when it can be neither read nor written.
    """
    path = state / "judge.secret"
    try:
        if not path.exists():
            draft = state / f".judge.secret.{secrets.token_hex(4)}"
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(_SECRET_BYTES))
                file.flush()
                os.fsync(file.fileno())
            draft.rename(path)
        found = path.read_bytes()
    except OSError as fault:
        raise WorkbenchError(
            f"the session's secret cannot be kept: {fault.strerror}", where=str(path)
        ) from fault
    if len(found) != _SECRET_BYTES:
        raise WorkbenchError("the session's secret is damaged", where=str(path), todo="remove it")
    return found


def seed_for(secret: bytes, number: int, source: str) -> bytes:
    """The gate's seed for one candidate: another for every number and every text."""
    keyed = hashlib.blake2b(key=secret, digest_size=SEED_BYTES)
    keyed.update(number.to_bytes(8, "big") + source.encode())
    return keyed.digest()
