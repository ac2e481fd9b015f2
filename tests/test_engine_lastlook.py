"""The kernel that a run ends with is looked at once more, and what is found is told."""

import pytest
from engine_parts import ScriptedWorkplace, new_session, report
from gate_kit import ADD_RELU, problem
from house_parts import house_of
from msgspec import structs
from session_kit import transition
from test_engine_rungs import HONEST, shop

from workbench.engine import events as ev
from workbench.engine import gatehouse
from workbench.engine.serve import serve_session
from workbench.errors import WorkbenchError
from workbench.gate.records import GateReport, Outcome, Stage, StageReport, Verdict
from workbench.session.records import Budget
from workbench.session.store import SessionStore

__all__ = ["shop"]

CLEAN = "9 calls; compute-sanitizer: memcheck, initcheck, racecheck clean"


def found(outcome: Outcome, says: str) -> GateReport:
    stage = StageReport(stage=Stage.CORRECTNESS, outcome=outcome, says=says)
    bad = outcome is Outcome.FAILED
    return structs.replace(
        report(verdict=Verdict.REJECTED if bad else Verdict.ACCEPTED),
        stages=(stage,),
        says=says,
        code="correctness.out-of-bounds" if bad else "",
        gpu_seconds=7.5,
    )


class Looking(ScriptedWorkplace):
    """Answers a last look as it was told to, and keeps of whom it was asked."""

    answer: GateReport | WorkbenchError | None = None

    def __init__(self, *given, **options) -> None:
        super().__init__(*given, **options)
        self.looked: list[int] = []

    def last_look(self, version):
        self.looked.append(version.number)
        if isinstance(self.answer, WorkbenchError):
            raise self.answer
        return self.answer


def ran(folder, answer, **options):
    """The end of a run, what was told, and who was looked at."""
    made: list[Looking] = []

    def opened(*given):
        made.append(Looking(*given, **options))
        made[0].answer = answer
        return made[0]

    heard: list[ev.AnyEvent] = []
    ended = serve_session(folder, open_workplace=opened, listen=heard.append)
    told = [(e.level, e.says) for e in heard if isinstance(e, ev.Note)]
    notes = [(level, says) for level, says in told if "look" in says.lower()]
    return ended, notes, made[0].looked


def test_the_best_kernel_is_looked_at_once_and_the_end_tells_what_was_found(tmp_path):
    new_session(tmp_path / "one", budget=Budget(steps=4))
    ended, notes, looked = ran(tmp_path / "one", found(Outcome.PASSED, CLEAN))
    assert looked == [4]
    assert ended.how == "budget"
    assert ended.says.endswith(f"the best is v4; a last look at v4: {CLEAN} (7.5 GPU-s)")
    assert ("info", ended.says.rpartition("v4; ")[2]) in notes
    again, _, looked = ran(tmp_path / "one", found(Outcome.PASSED, CLEAN))
    assert looked == [], "git knows that it was looked at"
    assert again.says.endswith("the best is v4")


def test_a_fault_is_told_as_a_warning_and_takes_nothing_back(tmp_path):
    new_session(tmp_path / "one", budget=Budget(steps=2))
    says = "memcheck: scale has an invalid read of 4 bytes in global memory"
    ended, notes, _ = ran(tmp_path / "one", found(Outcome.FAILED, says))
    assert f"LAST LOOK AGAINST v2: {says} [correctness.out-of-bounds]" in ended.says
    assert "workbench undo" in ended.says
    assert [level for level, _ in notes] == ["warning"]
    assert SessionStore.open(tmp_path / "one").overview().main == 2


@pytest.mark.parametrize("answer", [None, WorkbenchError("no worker starts")])
def test_where_nothing_can_look_the_run_ends_as_ever(tmp_path, answer):
    new_session(tmp_path / "one", budget=Budget(steps=2))
    ended, notes, looked = ran(tmp_path / "one", answer)
    assert looked == [2]
    assert ended.says.endswith("the best is v2")
    assert [level for level, _ in notes] == ([] if answer is None else ["warning"])


def test_a_run_that_ends_with_its_seed_asks_for_no_look(tmp_path):
    new_session(tmp_path / "one")
    ended, _, looked = ran(tmp_path / "one", found(Outcome.PASSED, CLEAN), steps=0)
    assert (ended.how, looked) == ("finished", [])


@pytest.mark.parametrize("wrong", [False, True])
def test_the_look_compares_at_the_top_rung_and_times_nothing(tmp_path, shop, monkeypatch, wrong):
    """On a station without a GPU the tools say that they were not asked; all else is for real."""
    monkeypatch.setattr(gatehouse, "find_sanitizer", lambda: "there")
    task = problem(ADD_RELU)
    store = new_session(tmp_path / "one")
    source = HONEST.replace("x + y", "x - y") if wrong else HONEST
    store.record(transition(0, None), source)
    house = house_of(
        store, task, shop, lambda _number, _told: pytest.fail("it is not a step of the session")
    )
    report_ = house.last_look(transition(0, None))
    assert report_.rung == 3
    assert report_.time is None
    assert report_.report(Stage.PROFILE).outcome is Outcome.SKIPPED
    if wrong:
        assert (report_.verdict, report_.stage) == (Verdict.REJECTED, Stage.CORRECTNESS)
    else:
        assert report_.verdict is Verdict.ACCEPTED
        assert "memcheck, initcheck, racecheck not checked" in report_.says
