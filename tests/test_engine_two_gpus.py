"""A whole session on two GPUs commits what it commits on one, also when one is slow or ill."""

import threading
import time
from pathlib import Path

import pytest
from engine_parts import ScriptedWorkplace, new_session
from gpu_parts import SECONDS, sick, stations
from msgspec import structs

from workbench.engine import events as ev
from workbench.engine.fleet import Fleet, Station
from workbench.engine.parts import Judged
from workbench.engine.serve import serve_session
from workbench.engine.sittings import Ear
from workbench.gate.records import GateReport
from workbench.session.records import Answer
from workbench.session.store import SessionStore

SLOW = 0.3
"""Seconds of a gate on a GPU that is slower than another."""


class TwoGpus(ScriptedWorkplace):
    """Candidates are gated by a fleet of two, ahead of their turn where one is free.

    Those after the second wait until two of them have met: each GPU then has had one of them,
    whichever thread is the faster.
    """

    def __init__(self, *given, ill: int | None = None, slow: int | None = None, **options):
        super().__init__(*given, **options)
        self.ill = ill
        self.slow = slow
        self.fleet = Fleet(None, stations(2), self.told)
        self.most: list[int] = []
        self.inside: dict[int, int] = {}
        self.lock = threading.Lock()
        self.met = threading.Event()

    def told(self, says: str) -> None:
        self.emit(ev.Note(level="warning", says=says))

    def sit(self, source, history, number, plan):
        sitting = super().sit(source, history, number, plan)
        ear = Ear(lambda _told: None, self.fleet.wake)
        plain = sitting.begin, sitting.attend, sitting.give_up

        def begin() -> None:
            def job(station: Station) -> GateReport:
                with self.lock:
                    assert station.index not in self.inside
                    self.inside[station.index] = number
                    self.most.append(len(self.inside))
                    if len(self.inside) == 2 and min(self.inside.values()) > 2:
                        self.met.set()
                try:
                    if number > 2:
                        assert self.met.wait(SECONDS), "no other candidate is begun ahead"
                    if station.index == self.ill and number > 2:
                        return sick(station)
                    plain[0]()
                    time.sleep(SLOW if station.index == self.slow else 0.02)
                    return structs.replace(sitting._report, gpu_seconds=1.0)
                finally:
                    with self.lock:
                        del self.inside[station.index]

            sitting._report = self.fleet.work(ear, job)
            sitting.gpu_seconds = sitting._report.gpu_seconds

        sitting.begin = begin
        sitting.attend = lambda: (ear.attend(), plain[1]())[-1]
        sitting.give_up = lambda: (ear.give_up(), plain[2]())[-1]
        sitting.finish = lambda _history: Judged(report=sitting._report)
        return sitting


def committed(folder: Path) -> list[tuple]:
    store = SessionStore.open(folder)
    rows = []
    for version in store.overview().versions:
        made = store.transition(version.number)
        rows.append((made.number, made.parent, made.decision.answer, store.source(made.number)))
    return rows


@pytest.mark.parametrize("ill", [None, 0, 1])
def test_two_gpus_commit_what_one_commits_in_the_same_order(tmp_path, ill):
    new_session(tmp_path / "one")
    serve_session(tmp_path / "one", open_workplace=ScriptedWorkplace)
    new_session(tmp_path / "two")
    made: list[TwoGpus] = []

    def opened(*given):
        made.append(TwoGpus(*given, depth=2, ill=ill))
        return made[0]

    heard: list[ev.AnyEvent] = []
    serve_session(tmp_path / "two", open_workplace=opened, listen=heard.append)
    assert committed(tmp_path / "two") == committed(tmp_path / "one")
    assert {row[2] for row in committed(tmp_path / "two")} == {Answer.ACCEPTED, Answer.REJECTED}
    assert max(made[0].most) == 2
    numbers = [e.number for e in heard if isinstance(e, ev.TransitionCommitted)]
    assert numbers == sorted(numbers)
    store = SessionStore.open(tmp_path / "two")
    gpus = {store.transition(n).gate.gpu.partition(" ")[0] for n in numbers if n > 2}
    assert gpus <= {f"cuda:{index}" for index in (0, 1) if index != ill}
    out = [e.says for e in heard if isinstance(e, ev.Note) and "left out" in e.says]
    assert len(out) == (0 if ill is None else 1)


@pytest.mark.parametrize("slow", [0, 1])
def test_a_gpu_much_slower_than_the_other_changes_no_commit_and_what_it_did_in_vain_is_paid(
    tmp_path, slow
):
    """While it times a candidate the incumbent changes: then that candidate is begun anew."""
    new_session(tmp_path / "one")
    serve_session(tmp_path / "one", open_workplace=ScriptedWorkplace)
    new_session(tmp_path / "two")
    heard: list[ev.AnyEvent] = []
    serve_session(
        tmp_path / "two",
        open_workplace=lambda *given: TwoGpus(*given, depth=2, slow=slow),
        listen=heard.append,
    )
    assert committed(tmp_path / "two") == committed(tmp_path / "one")
    store = SessionStore.open(tmp_path / "two")
    for version in store.overview().versions:
        made = store.transition(version.number)
        if made.parent is not None:
            parent = store.transition(made.parent)
            assert parent.decision.answer is Answer.ACCEPTED, "timed against what is kept"
    dropped = sum(e.cost.gpu_seconds for e in heard if isinstance(e, ev.AheadDropped))
    overview = store.overview()
    paid = sum(
        one.cost.gpu_seconds for some in (overview.versions, overview.spends) for one in some
    )
    gated = sum(store.transition(one.number).gate.gpu_seconds for one in overview.versions)
    assert paid == pytest.approx(gated + dropped, abs=0.01)
