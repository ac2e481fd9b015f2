"""Looking ahead changes when work is done, never what is committed or what it is said to cost."""

import asyncio
import hashlib
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from engine_parts import (
    SECONDS,
    ScriptedSitting,
    ScriptedWorkplace,
    commits_told,
    new_session,
    plan,
    report,
)
from msgspec import structs

from workbench.engine import events as ev
from workbench.engine.client import SessionClient
from workbench.engine.depth import depth_of
from workbench.engine.history import History
from workbench.engine.parts import Judged
from workbench.engine.serve import serve_session
from workbench.engine.workclock import WorkClock
from workbench.errors import WorkbenchError
from workbench.gate.records import Verdict
from workbench.search.proposer import NoProposal, Proposal
from workbench.session.records import Answer, Budget, Mode
from workbench.session.store import SessionStore

STEPS = 14


class Unhurried(ScriptedSitting):
    """Its turn ends when what follows its refusal was begun, however slow that thread is."""

    def finish(self, history: History) -> Judged:
        source, _, number = self._asked
        if 0 < number < self._workplace.steps:
            follows = name(number + 1, history.incumbent.number, f"{past(source)}-")
            assert self._workplace.has_begun(follows), "nothing is begun ahead"
        return super().finish(history)


def name(number: int, parent: int, after: str) -> str:
    return f"# v{number} from v{parent} after {after}\n"


def past(source: str) -> str:
    return source.rpartition(" ")[2].strip()


class Hillside(ScriptedWorkplace):
    """Its steps hang on everything that was decided before, its verdicts on the source alone."""

    luck = "a"
    least = 0.0

    def __init__(self, *given, **options) -> None:
        super().__init__(*given, **options)
        self._begun: set[str] = set()
        self._news = threading.Condition()

    def has_begun(self, source: str) -> bool:
        with self._news:
            return self._news.wait_for(lambda: source in self._begun, SECONDS)

    def sit(self, source, history, number, plan):
        kind = Unhurried if self.depth else ScriptedSitting
        return kind(self, source, history.incumbent if plan else None, number)

    def propose(self, history: History) -> Proposal | NoProposal:
        if history.steps >= self.steps:
            return NoProposal(reason="nothing is left to try")
        after = "".join(
            "+" if t.decision.answer is Answer.ACCEPTED else "-" for t in history.transitions
        )
        number = history.next_number
        source = name(number, history.incumbent.number, after)
        return Proposal(plan=plan(number), source=source)

    def gate(self, source, parent, number, tell):
        with self._news:
            self._begun.add(source)
            self._news.notify_all()
        made = super().gate(source, parent, number, tell)
        time.sleep(self.least)
        if parent is None:
            return made
        good = hashlib.sha256((self.luck + source).encode()).digest()[0] % 3 == 0
        verdict = Verdict.ACCEPTED if good else Verdict.REJECTED
        return report(verdict=verdict, microseconds=100.0 - number)


def run(folder: Path, *, depth: int, luck: str = "a", **options) -> list[ev.AnyEvent]:
    heard: list[ev.AnyEvent] = []

    def opened(*given):
        made = Hillside(*given, steps=STEPS, depth=depth, **options)
        made.luck = luck
        return made

    serve_session(folder, open_workplace=opened, listen=heard.append)
    return heard


def sequence(folder: Path) -> list:
    """What was committed, without when and at which cost."""
    store = SessionStore.open(folder)
    rows = []
    for version in store.overview().versions:
        made = store.transition(version.number)
        gate = structs.replace(made.gate, stages=())
        source = store.source(made.number)
        rows.append((made.number, made.parent, made.plan, gate, made.decision.answer, source))
    return rows


@pytest.mark.parametrize("luck", "abc")
def test_the_same_steps_are_committed_with_and_without_looking_ahead(tmp_path, luck):
    new_session(tmp_path / "plain")
    new_session(tmp_path / "ahead")
    run(tmp_path / "plain", depth=0, luck=luck)
    heard = run(tmp_path / "ahead", depth=3, luck=luck)
    assert sequence(tmp_path / "ahead") == sequence(tmp_path / "plain")
    answers = {row[4] for row in sequence(tmp_path / "plain")}
    assert answers == {Answer.ACCEPTED, Answer.REJECTED}
    assert any(isinstance(event, ev.AheadUsed) for event in heard)
    assert any(isinstance(event, ev.AheadDropped) for event in heard)


def test_what_is_thrown_away_is_paid_for_once(tmp_path):
    new_session(tmp_path / "ahead")
    heard = run(tmp_path / "ahead", depth=3)
    dropped = sum(e.cost.ahead_seconds for e in heard if isinstance(e, ev.AheadDropped))
    spent = [e for e in heard if isinstance(e, ev.BudgetSpent)][-1]
    store = SessionStore.open(tmp_path / "ahead")
    recorded = sum(v.cost.ahead_seconds for v in store.overview().versions)
    assert dropped > 0
    last = max(n for n, e in enumerate(heard) if isinstance(e, ev.TransitionCommitted))
    before = sum(e.cost.ahead_seconds for e in heard[:last] if isinstance(e, ev.AheadDropped))
    assert recorded == pytest.approx(before, abs=0.01), "all of it, and none twice"
    assert spent.cost.ahead_seconds == pytest.approx(recorded, abs=0.01)
    # What is given up as the run ends belongs to no transition any more; the event tells it.
    assert recorded <= dropped + 0.01


def test_no_more_than_the_depth_is_begun_and_nothing_past_the_last_step(tmp_path):
    new_session(tmp_path / "ahead", budget=Budget(steps=4))
    at_once: list[int] = []
    most = [0]
    gated: list[int] = []
    lock = threading.Lock()
    meeting = threading.Barrier(3)

    class Counting(ScriptedWorkplace):
        def gate(self, source, parent, number, tell):
            with lock:
                at_once.append(number)
                most[0] = max(most[0], len(at_once))
                gated.append(number)
                first = len(gated) in {2, 3, 4}
            if first:
                meeting.wait(SECONDS)
            try:
                return super().gate(source, parent, number, tell)
            finally:
                with lock:
                    at_once.remove(number)

    serve_session(
        tmp_path / "ahead", open_workplace=lambda *given: Counting(*given, steps=40, depth=2)
    )
    assert most[0] == 3
    assert max(gated) == 4


def test_a_stage_is_told_only_of_the_candidate_whose_turn_it_is(tmp_path):
    new_session(tmp_path / "ahead")
    now = 0
    told: list[tuple[int, int]] = []
    for event in run(tmp_path / "ahead", depth=3):
        if isinstance(event, ev.PlanMade):
            now = event.number
        elif isinstance(event, ev.StageStarted | ev.StageFinished):
            told.append((event.number, now))
    assert len({number for number, _ in told}) > 2
    assert all(number == now for number, now in told)


def test_a_worker_that_fails_ahead_fails_nothing(tmp_path):
    new_session(tmp_path / "plain")
    new_session(tmp_path / "ahead")
    run(tmp_path / "plain", depth=0)

    class Frail(ScriptedSitting):
        """Gets no worker before its turn."""

        def begin(self) -> None:
            if not self.attended:
                raise WorkbenchError("no worker starts")
            super().begin()

    class Poor(Hillside):
        def sit(self, source, history, number, plan):
            return Frail(self, source, history.incumbent if plan else None, number)

    ended = serve_session(
        tmp_path / "ahead", open_workplace=lambda *given: Poor(*given, steps=STEPS, depth=3)
    )
    assert ended.how == "finished"
    assert sequence(tmp_path / "ahead") == sequence(tmp_path / "plain")


def test_what_was_begun_against_another_parent_is_begun_anew(tmp_path):
    """Though the text is the same: it would be judged against a kernel that is none any more."""
    new_session(tmp_path / "one")
    gated: list[tuple[int, int | None]] = []

    class Alike(ScriptedWorkplace):
        """Its texts hang on the number alone; a turn ends when the next was begun."""

        def __init__(self, *given, **options) -> None:
            super().__init__(*given, **options)
            self.sat = [threading.Event() for _ in range(self.steps + 2)]

        def sit(self, source, history, number, plan):
            sitting = super().sit(source, history, number, plan)
            self.sat[number].set()
            finish, following = sitting.finish, self.sat[min(number + 1, self.steps)]
            if plan is not None:
                sitting.finish = lambda at: following.wait(SECONDS) and finish(at)
            return sitting

        def gate(self, source, parent, number, tell):
            gated.append((number, None if parent is None else parent.number))
            return super().gate(source, parent, number, tell)

    serve_session(tmp_path / "one", open_workplace=lambda *given: Alike(*given, steps=4, depth=1))
    store = SessionStore.open(tmp_path / "one")
    parents = [(v.number, v.parent) for v in store.overview().versions]
    assert (2, 0) in gated, "begun as if v1 were refused"
    assert set(parents) <= set(gated)
    assert parents[2] == (2, 1)


def test_while_a_person_decides_the_step_after_a_yes_is_begun(tmp_path):
    new_session(tmp_path / "review", mode=Mode.REVIEW, budget=Budget(steps=4))
    begun = threading.Event()
    used = threading.Event()
    waiting = threading.Event()

    class Watched(ScriptedWorkplace):
        def gate(self, source, parent, number, tell):
            made = super().gate(source, parent, number, tell)
            if number == 2 and parent is not None and parent.number == 1:
                begun.set()
            return made

    def hear(event) -> None:
        if isinstance(event, ev.DecisionWanted):
            waiting.set()
        if isinstance(event, ev.AheadUsed):
            used.set()

    thread = threading.Thread(
        target=serve_session,
        args=(tmp_path / "review",),
        kwargs={
            "listen": hear,
            "open_workplace": lambda *given: Watched(*given, steps=4, depth=2),
        },
        daemon=True,
    )
    thread.start()
    assert waiting.wait(SECONDS)
    assert begun.wait(SECONDS), "v2 is gated although nobody has accepted v1 yet"
    assert [v.number for v in SessionClient(tmp_path / "review").snapshot().versions] == [0, 1]
    asyncio.run(SessionClient(tmp_path / "review").decide(1, Answer.ACCEPTED))
    assert used.wait(SECONDS)
    asyncio.run(SessionClient(tmp_path / "review").stop())
    thread.join(SECONDS)


def reviewed(folder: Path, *, depth: int) -> None:
    """A whole run in which a person vetoes every other step that the gate would keep."""
    wanted: queue.Queue[int | None] = queue.Queue()

    def hear(event) -> None:
        if isinstance(event, ev.DecisionWanted | ev.RunEnded):
            wanted.put(event.number if isinstance(event, ev.DecisionWanted) else None)

    def opened(*given):
        return Hillside(*given, steps=STEPS, depth=depth)

    thread = threading.Thread(
        target=serve_session,
        args=(folder,),
        kwargs={"listen": hear, "open_workplace": opened},
        daemon=True,
    )
    thread.start()
    asked = 0
    while (number := wanted.get(timeout=SECONDS)) is not None:
        answer = (Answer.VETOED, Answer.ACCEPTED)[asked % 2]
        asyncio.run(SessionClient(folder).decide(number, answer, "not this one"))
        asked += 1
    thread.join(SECONDS)
    assert asked > 2


def test_a_veto_goes_on_from_what_was_begun_for_a_refusal(tmp_path):
    for name, depth in (("plain", 0), ("ahead", 3)):
        new_session(tmp_path / name, mode=Mode.REVIEW)
        reviewed(tmp_path / name, depth=depth)
    assert sequence(tmp_path / "ahead") == sequence(tmp_path / "plain")
    assert Answer.VETOED in {row[4] for row in sequence(tmp_path / "plain")}


@pytest.mark.slow
def test_a_kill_while_looking_ahead_resumes_to_the_same_sequence(tmp_path):
    """Kills a real engine at random moments; what it commits in the end is what one run commits."""
    new_session(tmp_path / "whole")
    new_session(tmp_path / "killed")
    run(tmp_path / "whole", depth=0)
    wanted = sequence(tmp_path / "whole")
    rng = random.Random(7)
    kills = 0
    while len(sequence(tmp_path / "killed")) < len(wanted):
        lines = rng.randint(1, 4)
        engine = subprocess.Popen(
            [sys.executable, __file__, str(tmp_path / "killed"), str(lines + 2)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(lines):
            engine.stdout.readline()
        time.sleep(rng.random() * 0.1)
        engine.send_signal(signal.SIGKILL)
        engine.stdout.read()
        engine.wait()
        kills += 1
        assert kills < 60
    assert kills > 1
    assert sequence(tmp_path / "killed") == wanted


def test_work_side_by_side_counts_once():
    at = [0.0]
    clock = WorkClock(lambda: at[0])
    with clock.work():
        at[0] = 2.0
        with clock.work():
            at[0] = 5.0
    at[0] = 9.0
    assert clock.lap() == 5.0
    with clock.work():
        at[0] = 10.0
        assert clock.lap() == 1.0
        at[0] = 12.0
    assert (clock.lap(), clock.seconds()) == (2.0, 8.0)


def test_a_session_says_how_far_to_look_ahead_else_the_machine_does(tmp_path):
    settings = new_session(tmp_path / "one").settings()
    assert [depth_of(settings, cores) for cores in (1, 2, 4, 64)] == [0, 1, 3, 4]
    assert depth_of(structs.replace(settings, device_index=0), 16) == 1
    assert depth_of(structs.replace(settings, ahead=0), 64) == 0


def main() -> None:
    def opened(*given):
        made = Hillside(*given, steps=STEPS, depth=3)
        made.least = 0.02
        return made

    folder, most = Path(sys.argv[1]), int(sys.argv[2])
    serve_session(folder, listen=commits_told(most), open_workplace=opened)


if __name__ == "__main__":
    main()
