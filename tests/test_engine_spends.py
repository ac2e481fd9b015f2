"""Every GPU-second of a run is in git and counts: steps, last looks, and what was thrown away."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from engine_parts import SECONDS, ScriptedWorkplace, new_session
from msgspec import structs
from session_kit import transition
from test_engine_lastlook import CLEAN, found

from workbench.cli.report import status_text
from workbench.engine import create
from workbench.engine import events as ev
from workbench.engine.budget import exhausted, no_look, reserve, room, too_little
from workbench.engine.devices import Place
from workbench.engine.history import History
from workbench.engine.opening import Opened
from workbench.engine.parts import GivenUp, Judged
from workbench.engine.serve import serve_session
from workbench.errors import WorkbenchError
from workbench.gate.records import Outcome, Verdict
from workbench.search.proposer import NoProposal
from workbench.session.bundle import export_bundle, import_bundle
from workbench.session.check import check_session
from workbench.session.records import Budget, Cost, Mode
from workbench.session.spends import Spend, message, spend_number, spend_ref
from workbench.session.store import SessionStore

LOOK = Cost(gpu_seconds=11.0, wall_seconds=11.0)
A_STEP = 2.0


class Costly(ScriptedWorkplace):
    """Every candidate takes two GPU-seconds, and a last look eleven."""

    last_look_price = LOOK
    verdict = Outcome.PASSED

    def __init__(self, *given, **options) -> None:
        super().__init__(*given, **options)
        self.looked: list[int] = []

    def sit(self, source, history, number, plan):
        sitting = super().sit(source, history, number, plan)
        finish = sitting.finish

        def finished(at: History) -> Judged:
            judged = finish(at)
            return structs.replace(
                judged, report=structs.replace(judged.report, gpu_seconds=A_STEP)
            )

        sitting.finish = finished
        return sitting

    def last_look(self, version):
        self.looked.append(version.number)
        return structs.replace(found(self.verdict, CLEAN), gpu_seconds=LOOK.gpu_seconds)


def ran(folder: Path, kind=Costly, **options):
    """How a run ended, and its workplace."""
    made: list[ScriptedWorkplace] = []

    def opened(*given):
        made.append(kind(*given, **options))
        return made[0]

    return serve_session(folder, open_workplace=opened), made[0]


def spent(folder: Path) -> Cost:
    return Opened(folder).snapshot().spent


def test_a_last_look_is_in_git_with_what_it_found_and_cost(tmp_path):
    new_session(tmp_path / "one", budget=Budget(steps=4))
    ran(tmp_path / "one")
    store = SessionStore.open(tmp_path / "one")
    (look,) = store.overview().spends
    assert (look.purpose, look.version, look.verdict) == ("last look", 4, Verdict.ACCEPTED)
    assert look.cost.gpu_seconds == LOOK.gpu_seconds
    assert CLEAN in look.says
    assert spent(tmp_path / "one").gpu_seconds == 5 * A_STEP + LOOK.gpu_seconds
    snapshot = Opened(tmp_path / "one").snapshot()
    assert "21.0 GPU-s (seed 2.0, steps 8.0, last look 11.0)" in status_text(snapshot)
    assert check_session(store) == ()


def test_a_last_look_travels_in_a_bundle(tmp_path):
    new_session(tmp_path / "one", budget=Budget(steps=4))
    ran(tmp_path / "one")
    export_bundle(SessionStore.open(tmp_path / "one"), tmp_path / "one.bundle")
    there = import_bundle(tmp_path / "one.bundle", tmp_path / "there")
    assert there.overview().spends == SessionStore.open(tmp_path / "one").overview().spends
    assert Opened(there.folder).snapshot().spent.gpu_seconds == 21.0


@pytest.mark.parametrize(("limit", "steps"), [(40.0, 14), (30.0, 9)])
def test_no_step_spends_what_is_kept_back_for_the_last_look(tmp_path, limit, steps):
    new_session(tmp_path / "one", budget=Budget(gpu_seconds=limit))
    ended, workplace = ran(tmp_path / "one", steps=100)
    assert workplace.looked
    assert spent(tmp_path / "one").gpu_seconds <= limit
    assert len(SessionStore.open(tmp_path / "one").summaries()) == steps
    assert "less than a step and the last look" in ended.says


def test_a_budget_too_small_for_a_look_goes_to_steps_and_says_so(tmp_path):
    new_session(tmp_path / "one", budget=Budget(gpu_seconds=12.0))
    ended, workplace = ran(tmp_path / "one", steps=100)
    assert workplace.looked == []
    assert spent(tmp_path / "one").gpu_seconds == 12.0
    assert "no last look at v5: it takes about 11 GPU-seconds, and 0.0 of 12 are left" in ended.says
    store = SessionStore.open(tmp_path / "one")
    store.save_settings(structs.replace(store.settings(), budget=Budget(gpu_seconds=60, steps=5)))
    ended, workplace = ran(tmp_path / "one")
    assert workplace.looked == [5], "a wider limit looks at what was left out"


def test_a_run_killed_in_its_last_look_looks_again_and_counts_it_once(tmp_path):
    folder = tmp_path / "one"
    new_session(folder, budget=Budget(steps=4))
    program = "from test_engine_spends import dies; dies()"
    words = [sys.executable, "-c", program, str(folder)]
    engine = subprocess.run(words, cwd=Path(__file__).parent, timeout=120, check=False)
    assert engine.returncode == -signal.SIGKILL
    assert SessionStore.open(folder).overview().spends == ()
    ran(folder)
    assert [one.version for one in SessionStore.open(folder).overview().spends] == [4]
    assert spent(folder).gpu_seconds == 21.0


class Dying(Costly):
    """Its last look is cut off as by the machine's end."""

    def last_look(self, _version):
        os.kill(os.getpid(), signal.SIGKILL)


def dies() -> None:
    ran(Path(sys.argv[1]), Dying)


def test_what_could_not_be_judged_is_paid_for_and_looked_at_again(tmp_path):
    class Busy(Costly):
        def last_look(self, _version):
            busy = found(Outcome.UNPROVEN, "the GPU is busy")
            return structs.replace(busy, verdict=Verdict.UNPROVEN, gpu_seconds=1.0)

    new_session(tmp_path / "one", budget=Budget(steps=4))
    ran(tmp_path / "one", Busy)
    _, workplace = ran(tmp_path / "one")
    assert workplace.looked == [4]
    assert spent(tmp_path / "one").gpu_seconds == 5 * A_STEP + 1.0 + LOOK.gpu_seconds


class Wasting(ScriptedWorkplace):
    """What is begun ahead has had a GPU, and the run ends before it is anybody's turn."""

    def __init__(self, *given, **options) -> None:
        super().__init__(*given, **options)
        self.ahead = threading.Event()

    def sit(self, source, history, number, plan):
        sitting = super().sit(source, history, number, plan)
        finish = sitting.finish
        if number > 2:
            sitting.gpu_seconds = 3.0
            sitting.begin = lambda: sitting._given_up.wait(SECONDS) and self._gone()
            self.ahead.set()
        elif number == 2:
            sitting.finish = lambda at: self.ahead.wait(SECONDS) and finish(at)
        return sitting

    @staticmethod
    def _gone() -> None:
        raise GivenUp


def test_work_that_came_to_no_version_is_on_the_bill(tmp_path):
    new_session(tmp_path / "one", budget=Budget(steps=9))

    class Two(Wasting):
        """More is begun than is taken, as where a goal is reached."""

        def propose(self, history):
            return NoProposal(reason="over") if history.steps == 2 else super().propose(history)

        def foresee(self, history, _drafts):
            return ScriptedWorkplace.propose(self, history)

    heard: list[ev.AnyEvent] = []
    serve_session(
        tmp_path / "one",
        open_workplace=lambda *given: Two(*given, depth=2),
        listen=heard.append,
    )
    dropped = sum(e.cost.gpu_seconds for e in heard if isinstance(e, ev.AheadDropped))
    assert dropped >= 3.0
    assert spent(tmp_path / "one").gpu_seconds == dropped


def test_a_spend_is_read_as_it_was_written_and_nothing_else_is_one(tmp_path):
    store = new_session(tmp_path / "one")
    store.record(transition(0, None), "# v0\n")
    spend = Spend(
        purpose="last look",
        version=0,
        verdict=Verdict.REJECTED,
        says="memcheck: a write\nGPU-Seconds: 0",
        cost=Cost(gpu_seconds=1.25, wall_seconds=2.5),
        at="2026-01-01T00:00:00.000+00:00",
    )
    store.record_spend(spend)
    store.record_spend(spend)
    first, second = store.overview().spends
    assert first == second == structs.replace(spend, says=spend.says.replace("\n", " "))
    assert spend_number(spend_ref(12)) == 12
    assert spend_number("refs/spends/00012") is None
    assert message(spend).startswith("last look at v0: rejected\n\n")


@pytest.mark.parametrize(
    ("limit", "says"), [(0.0, ""), (0.001, "2 of 0.001 GPU-seconds are spent"), (1e9, "")]
)
def test_a_limit_of_gpu_seconds_ends_nothing_that_uses_no_gpu(limit, says):
    budget = Budget(gpu_seconds=limit)
    assert exhausted(budget, 3, Cost(wall_seconds=50.0)) == ""
    assert exhausted(budget, 3, Cost(gpu_seconds=2.0 if limit else 0.0)) == says


@pytest.mark.parametrize(
    ("budget", "where"),
    [
        (Budget(wall_seconds=0.0), "--wall-seconds 0"),
        (Budget(gpu_seconds=0.0), "--gpu-seconds 0"),
    ],
)
def test_no_time_at_all_is_refused_before_anything_is_made(tmp_path, monkeypatch, budget, where):
    gpu = Place(device="NVIDIA H200", index=0, target="sm90")
    monkeypatch.setattr(create, "choose_places", lambda *_asked: (gpu,))
    ask = {"problem": "softmax", "kernel": None, "mode": Mode.AUTO, "device": "auto"}
    with pytest.raises(WorkbenchError) as raised:
        create.create_session(
            create.RunRequest(
                **ask, target="", budget=budget, proposer="skills", name="one", sessions=tmp_path
            )
        )
    assert raised.value.where == where
    assert not list(tmp_path.iterdir())


LIMITED = Budget(gpu_seconds=100.0)


def test_what_is_kept_back_leaves_half_of_each_limit():
    assert reserve(LIMITED, LOOK) == LOOK
    assert reserve(Budget(gpu_seconds=21.9), LOOK) == Cost()
    assert reserve(Budget(gpu_seconds=100.0, wall_seconds=21.9), LOOK) == Cost()
    assert reserve(Budget(), LOOK) == LOOK
    assert reserve(LIMITED, None) == Cost()


def test_steps_have_what_the_last_look_leaves():
    step = Cost(gpu_seconds=2.0)
    assert room(LIMITED, 0, Cost(gpu_seconds=80.0), step, LOOK) == 4
    assert room(LIMITED, 0, Cost(gpu_seconds=80.0), step) == 10
    assert too_little(LIMITED, Cost(gpu_seconds=88.0), step, LOOK)
    assert not too_little(LIMITED, Cost(gpu_seconds=87.0), step, LOOK)
    assert not too_little(LIMITED, Cost(gpu_seconds=88.0), step)
    assert no_look(LIMITED, Cost(gpu_seconds=90.0), LOOK)
    assert not no_look(LIMITED, Cost(gpu_seconds=89.0), LOOK)
