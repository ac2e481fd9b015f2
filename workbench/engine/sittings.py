"""Candidates of a session in the gate; the events of each are held back until its turn."""

import threading
import time
from collections.abc import Callable

from msgspec import Struct, structs

from workbench.engine.climbing import Climb, Found, pruned_by
from workbench.engine.held import HELD
from workbench.engine.history import History, modeled_speed
from workbench.engine.parts import GivenUp, Judged, Look
from workbench.engine.refusing import refused
from workbench.engine.twins import same_work, twin_of
from workbench.gate.judge import Sitting, Told
from workbench.gate.records import Finding, GateReport, Outcome, Stage, Verdict
from workbench.measure.records import Speed, Time
from workbench.search.paying import Worth
from workbench.session.queue import Seen
from workbench.session.records import RungVisit, Transition
from workbench.skills.records import Plan


class Ear:
    """Keeps what a sitting reports until somebody attends, then passes everything on in order.

    Also the sitting's turn (`fleet.Turn`); `changed` is called when that changes.
    """

    wasted = 0.0
    """Seconds for which it held a GPU without a result."""

    def __init__(
        self, tell: Callable[[Told], None], changed: Callable[[], None] = lambda: None
    ) -> None:
        self._tell = tell
        self._changed = changed
        self._lock = threading.Lock()
        self._kept: list[Told] = []
        self._attended = False
        self._given_up = False

    def __call__(self, told: Told) -> None:
        """Pass it on, or keep it until `attend`. Raises GivenUp when nobody will ever attend."""
        with self._lock:
            if self._given_up:
                raise GivenUp
            if self._attended:
                self._tell(told)
            else:
                self._kept.append(told)

    @property
    def come(self) -> bool:
        """Whether somebody attends."""
        return self._attended

    @property
    def over(self) -> bool:
        """Whether nobody ever will."""
        return self._given_up

    def muted(self, told: Told) -> None:  # noqa: ARG002 -- nothing is passed on
        """A listener that drops what it hears. Raises GivenUp when nobody will ever attend."""
        if self._given_up:
            raise GivenUp

    def had(self, seconds: float) -> None:
        """It gave a GPU back after this many seconds without a result."""
        self.wasted += seconds

    def attend(self) -> None:
        """Pass on what was kept, and from now on everything as it comes."""
        with self._lock:
            self._attended = True
            for told in self._kept:
                self._tell(told)
            self._kept.clear()
        self._changed()

    def give_up(self) -> None:
        """Make every later report raise GivenUp."""
        self._given_up = True
        self._changed()


class Procedure(Struct, frozen=True, kw_only=True):
    """How a session's candidate is gated: as what, against whom, and by what."""

    plan: Plan | None
    history: History
    """The history as it is, or would be, when its turn has come."""
    parent: Transition | None
    needs_gpu: bool
    go_on: Callable[[Sitting], GateReport]
    """The gate after compile."""
    modeled: Callable[[Sitting], Time | None]
    """A time that may rank what was compiled; None where none may."""
    completed: Callable[[GateReport], GateReport]
    """The report as the session keeps it."""
    early: bool = False
    """Whether the gate goes on to its end before its turn: where that needs no GPU, or another one
    than the running candidate has."""
    smoke: Callable[[Sitting], GateReport] | None = None
    """A few pairs; None where there is no such rung beside the gate's own."""
    worth: Callable[[History], Worth] | None = None
    """Whether smoke is worth what it takes."""
    shared_out: Callable[[History], str] = lambda _history: ""
    """Which rung above smoke has had its share of the run's budget, as a clause."""
    clear: Callable[[Speed], bool] = lambda _speed: True
    """Whether a speed at smoke lets it climb although a share is spent."""


class SessionSitting:
    """One candidate: `begin` does all of its gate that needs no GPU, rung by rung."""

    def __init__(
        self,
        sitting: Sitting,
        ear: Ear,
        procedure: Procedure,
        climb: Climb,
        called: Callable[[int], None] = lambda number: None,  # noqa: ARG005 -- nobody tells it
    ) -> None:
        """`called` receives the number under which it is reported from now on."""
        self._sitting = sitting
        self._ear = ear
        self._procedure = procedure
        self._climb = climb
        self._called = called
        self._static: Found | None = None
        self._pruned: Finding | None = None
        self._waits: Finding | None = None
        """Why others go first, where a rung has had its share."""
        self._smoked: GateReport | None = None
        self._seen: Seen | None = None
        """What smoke found, here or in an engine before this one."""
        self._report: GateReport | None = None
        self._on_gpu = 0.0

    def begin(self) -> None:
        """Policy, compile and the modeled time; where it may be early, everything that it takes."""
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
        elif self._procedure.early and not self._twin(report, self._procedure.history):
            self._asked_on(self._procedure.history)

    def attend(self) -> None:
        """Tell the session what it tells."""
        self._ear.attend()

    def called(self, number: int) -> None:
        """It becomes that transition, whatever it was begun as."""
        self._called(number)

    def recall(self, seen: Seen) -> None:
        """Take what an engine before this one found, in place of asking smoke again."""
        self._seen = seen

    @property
    def seen(self) -> Seen | None:
        """What smoke found."""
        return self._seen

    def look(self) -> Look:
        """What ranks it beside others, after `begin`: the lowest rung that says anything."""
        if self._pruned is None and self._report is None and not self._refused_already():
            self._smoke()
        if self._report is not None:
            self._climb.gated(self._report, needs_gpu=self._procedure.needs_gpu)
        visit = self._climb.visits[-1]
        action = visit.action
        if self._report is not None and action == "hold":
            action = "prune"  # its gate is over, and could not tell
        elif action == "hold" and visit.speed is None:
            action = "promote"  # what smoke could not judge, the whole gate has to
        reason = visit.reason
        if action == "promote" and (why := self._goes_behind(self._procedure.history)):
            action, reason = "hold", f"{reason}; {why}"
        return Look(action=action, reason=reason, score=visit.score)

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
        if self._report is None and self._pruned is None and self._waits is None:
            self._asked_on(history)
        if self._pruned is not None:
            return self._cut(Stage.PROFILE, self._pruned)
        if self._waits is not None:
            return self._cut(Stage.PROFILE, self._waits)
        if self._report is None:
            wrong = self._smoke_report()
            self._ear(Told(Stage.CORRECTNESS, wrong.report(Stage.CORRECTNESS)))
            return self._judged(wrong, own=wrong.gpu_seconds, rungs=self._climb.visits)
        own = self._report.gpu_seconds
        report = self._procedure.completed(self._report)
        # What it pays for others (baselines, the problem's inspection) is not a rung's price.
        alone = structs.replace(report, gpu_seconds=own)
        self._climb.gated(alone, needs_gpu=self._procedure.needs_gpu)
        return self._judged(report, own=own, rungs=self._climb.visits)

    def put_aside(self, code: str, says: str) -> Judged:
        """What became of a candidate that was looked at, when others go first."""
        self._climb.held(says)
        return self._cut(Stage.PROFILE, Finding(code=code, says=says))

    def give_up(self) -> None:
        """It ends when it next has something to tell: after a stage, or after a call within one."""
        self._ear.give_up()

    @property
    def gpu_seconds(self) -> float:
        """Spent so far; of what was given up, for how long it had a GPU."""
        return self._on_gpu + self._ear.wasted

    # -- rungs ------------------------------------------------------------------------------

    def _asked_on(self, history: History) -> None:
        """Smoke, where it pays or decides who may go on, then the whole gate unless that is
        over."""
        worth = None if self._procedure.worth is None else self._procedure.worth(history)
        if self._smoked is None and not self._refused_already() and worth is not None:
            if worth.pays or self._shared_out(history):
                self._smoke()
            else:
                self._climb.left_out("smoke", worth.reason)
        if self._pruned is not None or self._is_wrong():
            return
        if why := self._goes_behind(history):
            says = f"put aside: {self._climb.visits[-1].reason}; {why}"
            self._climb.held(f"put aside: {why}")
            self._waits = Finding(code=HELD, says=says)
            return
        self._report = self._counted(self._procedure.go_on)

    def _shared_out(self, history: History) -> str:
        """Which rung has had its share; empty for who is judged whatever that takes: what a model
        or a person wrote, and who was put aside before."""
        plan = self._procedure.plan
        if plan is None or not plan.edit or plan.method or plan.held is not None:
            return ""
        return self._procedure.shared_out(history)

    def _goes_behind(self, history: History) -> str:
        """Why others go first, by shares and by its speed at smoke; empty where they do not.

        What smoke could not judge goes on, since nothing could say later when its turn has come.
        """
        speed = None if self._smoked is None else self._smoked.speed
        if speed is None or self._procedure.clear(speed):
            return ""
        return self._shared_out(history)

    def _refused_already(self) -> bool:
        """Whether policy or compiler did."""
        static = self._static
        return static is None or static.report.verdict is not Verdict.ACCEPTED

    def _smoke(self) -> None:
        """Ask the rung; what its interval proves to be slower is given up."""
        if self._procedure.smoke is None:
            return
        seen = self._seen
        if seen is None:
            began = time.monotonic()
            report = self._counted(self._procedure.smoke)
            seen = self._seen = Seen(report=report, wall_seconds=time.monotonic() - began)
        elif not seen.paid:
            self._on_gpu += seen.report.gpu_seconds
        report = self._smoked = seen.report
        found = Found(
            report=report,
            speed=report.speed,
            time=report.time,
            gpu_seconds=report.gpu_seconds,
            wall_seconds=seen.wall_seconds,
            undecided=report.speed is None and not self._is_wrong(),
        )
        visit = self._climb.reached("smoke", found)
        if visit.action == "prune" and not self._is_wrong():
            self._pruned = pruned_by(visit)

    def _is_wrong(self) -> bool:
        """Whether smoke found something else against it than a speed: that is the gate's own word,
        and one about a smaller shape."""
        one = None if self._smoked is None else self._smoked.report(Stage.CORRECTNESS)
        return one is not None and one.outcome is Outcome.FAILED

    def _smoke_report(self) -> GateReport:
        if self._smoked is None:
            raise RuntimeError("nobody asked the gate, and nobody gave the candidate up")
        return self._smoked

    def _counted(self, ask: Callable[[Sitting], GateReport]) -> GateReport:
        """A report, with what it took of the GPU on the bill."""
        report = ask(self._sitting)
        self._on_gpu += report.gpu_seconds
        return report

    def _judged(self, report: GateReport, *, own: float, rungs: tuple[RungVisit, ...]) -> Judged:
        """A report with everything that the candidate took of the GPU; `own` is in it already."""
        spent = report.gpu_seconds + self._on_gpu - own + self._ear.wasted
        return Judged(report=structs.replace(report, gpu_seconds=spent), rungs=rungs)

    def _twin(self, report: GateReport, history: History) -> Transition | None:
        return twin_of(report, self._procedure.plan, history)

    def _cut(self, stage: Stage, finding: Finding) -> Judged:
        """It ends at a stage, for another reason than the stage's own."""
        early = stage is Stage.COMPILE
        looked = None if early else self._smoked
        said = looked or self._sitting.report()
        report = refused(said, stage, finding, rung=0 if looked is None else 1)
        self._ear(Told(stage, report.report(stage)))
        rungs = self._climb.visits[:1] if early else self._climb.visits
        return self._judged(report, own=report.gpu_seconds, rungs=rungs)

    def _modeled_speed(self, modeled: Time | None) -> Speed | None:
        """Against the parent, by its own modeled time; None where either has none."""
        parent = self._procedure.parent
        before = (
            next((v.time for v in parent.rungs if v.rung == "static"), None) if parent else None
        )
        return None if before is None or modeled is None else modeled_speed(before, modeled)
