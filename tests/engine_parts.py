"""A workplace whose answers are written down, for tests of everything around it.

Also a program: `python engine_parts.py SESSION_FOLDER MOST` runs an engine on it, to be killed.
"""

import sys
import threading
import time
from pathlib import Path

from workbench.engine import events as ev
from workbench.engine.history import History
from workbench.engine.parts import GivenUp, Judged
from workbench.engine.serve import serve_session
from workbench.gate.records import (
    Finding,
    GateReport,
    Outcome,
    Stage,
    StageReport,
    Verdict,
)
from workbench.measure.records import Kind, Speed, Time
from workbench.search.proposer import NoProposal, Proposal
from workbench.session.records import Budget, Mode, Proposer, SessionSettings, Transition
from workbench.session.store import SessionStore
from workbench.skills.records import Check, Plan, Truth

PROBLEM = "class Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n"
SEED = "# v0\n"
SECONDS = 60.0
"""For another thread that never comes."""


def new_session(
    folder: Path,
    *,
    mode: Mode = Mode.AUTO,
    budget: Budget | None = None,
    proposer: Proposer = "skills",
) -> SessionStore:
    settings = SessionSettings(
        name=folder.name,
        problem="softmax",
        mode=mode,
        device="cpu",
        target="sm90",
        proposer=proposer,
        budget=budget or Budget(),
        created="2026-01-01T00:00:00+00:00",
    )
    return SessionStore.create(folder, settings, PROBLEM)


def report(*, microseconds: float = 100.0, verdict: Verdict = Verdict.ACCEPTED) -> GateReport:
    accepted = verdict is Verdict.ACCEPTED
    findings = () if accepted else (Finding(code="correctness.error-above-bound", says="wrong"),)
    stages = (
        StageReport(stage=Stage.POLICY, outcome=Outcome.PASSED, says="fine", seconds=0.01),
        StageReport(
            stage=Stage.CORRECTNESS,
            outcome=Outcome.PASSED if accepted else Outcome.FAILED,
            says="9 calls" if accepted else "wrong",
            findings=findings,
        ),
    )
    return GateReport(
        verdict=verdict,
        stage=Stage.PROFILE if accepted else Stage.CORRECTNESS,
        code="" if accepted else "correctness.error-above-bound",
        says="faster" if accepted else "wrong",
        stages=stages,
        rung=2,
        kernel_sha256="0" * 64,
        target="sm90",
        device="cpu",
        time=Time(kind=Kind.MODELED, microseconds=microseconds, device="sm90"),
        speed=Speed(kind=Kind.MODELED, ratio=1.1),
    )


def plan(number: int) -> Plan:
    return Plan(
        card="num-warps",
        title=f"step {number}",
        intent="hide latency",
        kernel="softmax_kernel",
        edit="num-warps",
        parameters={"num_warps": number},
        checks=(
            Check(says="few warps", when="launch.num_warps < 8", truth=Truth.YES, because="4 < 8"),
        ),
    )


class ScriptedSitting:
    """One candidate of a scripted workplace; `begin` is its whole gate."""

    gpu_seconds = 0.0

    def __init__(self, workplace, source: str, parent: Transition | None, number: int) -> None:
        self._workplace = workplace
        self._asked = (source, parent, number)
        self._kept: list[ev.AnyEvent] | None = []
        self._lock = threading.Lock()
        self._given_up = threading.Event()

    def tell(self, event: ev.AnyEvent) -> None:
        with self._lock:
            if self._given_up.is_set():
                raise GivenUp
            if self._kept is None:
                self._workplace.emit(event)
            else:
                self._kept.append(event)

    def begin(self) -> None:
        self._report = self._workplace.gate(*self._asked, self.tell)

    @property
    def attended(self) -> bool:
        return self._kept is None

    def attend(self) -> None:
        with self._lock:
            for event in self._kept or ():
                self._workplace.emit(event)
            self._kept = None

    def finish(self, _history: History) -> Judged:
        return Judged(report=self._report)

    def give_up(self) -> None:
        self._given_up.set()


class ScriptedWorkplace:
    """Proposes `steps` candidates; every third is wrong, the others get faster."""

    talks = None
    beam = 1
    chooser = None
    last_look_price = None

    def __init__(
        self,
        _store: SessionStore,
        _settings: SessionSettings,
        own_seed: tuple[str, str] | None,
        emit,
        *,
        steps: int = 6,
        seed_verdict: Verdict = Verdict.ACCEPTED,
        gate_seconds: float = 0.0,
        hold: threading.Event | None = None,
        depth: int = 0,
    ) -> None:
        self.emit = emit
        self.depth = depth
        self.own_seed = own_seed
        self.steps = steps
        self.seed_verdict = seed_verdict
        self.gate_seconds = gate_seconds
        self.hold = hold
        self.closed = False
        self.parents: dict[int, int | None] = {}

    def seed(self) -> tuple[str, str]:
        return self.own_seed or (SEED, "shipped seed")

    def sit(self, source: str, history: History, number: int, plan: Plan | None) -> ScriptedSitting:
        return ScriptedSitting(self, source, history.incumbent if plan else None, number)

    def gate(self, _source: str, parent: Transition | None, number: int, tell) -> GateReport:
        self.parents[number] = None if parent is None else parent.number
        tell(ev.StageStarted(number=number, stage="policy"))
        if self.hold is not None and parent is not None:
            self.hold.wait(SECONDS)
        if self.gate_seconds:
            time.sleep(self.gate_seconds)
        if parent is None:
            made = report(verdict=self.seed_verdict)
        elif number % 3 == 0:
            made = report(verdict=Verdict.REJECTED)
        else:
            made = report(microseconds=100.0 - number)
        for stage in made.stages:
            tell(ev.StageFinished(number=number, report=stage))
        return made

    def propose(self, history: History) -> Proposal | NoProposal:
        if history.steps >= self.steps:
            return NoProposal(reason="nothing is left to try")
        number = history.next_number
        return Proposal(plan=plan(number), source=f"# v{number}\n")

    def foresee(self, history: History, _drafts) -> Proposal | NoProposal:
        return self.propose(history)

    def last_look(self, _version: Transition) -> GateReport | None:
        return None

    def close(self) -> None:
        self.closed = True


def commits_told(most: int):
    """Prints each commit. After so many the engine waits to be killed: so a killer that is late
    finds a session that is not over."""
    told: list[int] = []

    def listen(event) -> None:
        if isinstance(event, ev.TransitionCommitted):
            sys.stdout.write(f"{event.number} {event.commit}\n")
            sys.stdout.flush()
            told.append(event.number)
            if len(told) == most:
                threading.Event().wait()

    return listen


def main() -> None:
    def opened(store, settings, own_seed, emit):
        return ScriptedWorkplace(store, settings, own_seed, emit, steps=40, gate_seconds=0.004)

    folder, most = Path(sys.argv[1]), int(sys.argv[2])
    serve_session(folder, listen=commits_told(most), open_workplace=opened)


if __name__ == "__main__":
    main()
