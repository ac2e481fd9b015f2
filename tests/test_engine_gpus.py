"""Whole sessions on real GPUs: with a beam, with smoke asked of all, and on two at once."""

from pathlib import Path

import pytest

from workbench.engine import events as ev
from workbench.engine.create import RunRequest, create_session
from workbench.engine.serve import serve_session
from workbench.gate.records import Outcome, Stage, Verdict
from workbench.measure.gpus import list_gpus
from workbench.measure.records import Kind
from workbench.search.ladder import ladder_file
from workbench.session.records import Answer, Budget, Mode, Transition
from workbench.session.store import SessionStore

pytestmark = pytest.mark.gpu

STEPS = 5


def ran(folder: Path, **request: object) -> tuple[list[Transition], list[ev.AnyEvent]]:
    """A session of a few steps: its transitions, and what was told."""
    known = {
        "problem": "softmax",
        "kernel": None,
        "mode": Mode.AUTO,
        "device": "auto",
        "target": "",
        "budget": Budget(steps=STEPS),
        "proposer": "skills",
        "name": "one",
        "sessions": folder,
    }
    path = create_session(RunRequest(**{**known, **request}))
    heard: list[ev.AnyEvent] = []
    ended = serve_session(path, listen=heard.append)
    assert ended.how in {"budget", "finished"}, ended.says
    store = SessionStore.open(path)
    found = [store.transition(version.number) for version in store.overview().versions]
    for one in found:
        rungs = "; ".join(f"{v.rung} {v.action} {v.gpu}: {v.reason}" for v in one.rungs)
        print(f"\nv{one.number} {one.decision.answer} {one.gate.says} [{rungs}]")
    return found, heard


def proven(one: Transition) -> bool:
    """Whether every stage of the whole gate passed, on a GPU that is named."""
    passed = all(report.outcome is Outcome.PASSED for report in one.gate.stages)
    return passed and len(one.gate.stages) == len(Stage) and one.gate.gpu.startswith("cuda:")


def test_smoke_that_is_always_asked_ranks_and_keeps_nothing(tmp_path):
    ladder_file().parent.mkdir(parents=True, exist_ok=True)
    ladder_file().write_text('[rung.smoke]\nuse = "always"\n')
    found, _ = ran(tmp_path)
    smoked = [v for one in found for v in one.rungs if v.rung == "smoke"]
    assert smoked
    for visit in smoked:
        assert visit.gpu_seconds > 0
        assert visit.speed is None or visit.speed.pairs == 14
        assert visit.speed is None or visit.speed.kind is Kind.MEASURED
    for one in found:
        if one.decision.answer is Answer.ACCEPTED:
            assert proven(one)
            assert one.gate.rung == 2


def test_a_beam_on_a_gpu_gates_the_best_of_its_looks(tmp_path):
    found, _ = ran(tmp_path, beam=3)
    looks = [v for one in found[1:] for v in one.rungs if v.rung == "smoke"]
    assert len(looks) >= 2
    kept = [one for one in found[1:] if one.decision.answer is Answer.ACCEPTED]
    assert kept, "softmax has a gain that the cards find"
    assert all(proven(one) and one.gate.verdict is Verdict.ACCEPTED for one in kept)


@pytest.mark.skipif(len(list_gpus()) < 2, reason="needs two GPUs")
@pytest.mark.parametrize("beam", [1, 4])
def test_two_gpus_work_for_one_session_and_every_record_names_its_own(tmp_path, beam):
    found, heard = ran(tmp_path, device="cuda:0,cuda:1", beam=beam)
    gpus = {v.gpu.partition(" ")[0] for one in found for v in one.rungs if v.gpu}
    gpus |= {one.gate.gpu.partition(" ")[0] for one in found if one.gate.gpu}
    assert gpus == {"cuda:0", "cuda:1"}
    committed = [e.number for e in heard if isinstance(e, ev.TransitionCommitted)]
    assert committed == list(range(len(found)))
    for one in found:
        if one.decision.answer is Answer.ACCEPTED:
            assert proven(one)
