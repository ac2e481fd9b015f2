"""Whole sessions on real GPUs, as small as they can be: pairs first, a beam, and two at once.

Each prints a line a version and what every GPU was used for: `pytest -s tests/test_engine_gpus.py`.
"""

import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import msgspec
import pytest

from workbench.cli.report import status_text
from workbench.engine import events as ev
from workbench.engine.create import RunRequest, create_session
from workbench.engine.held import HELD
from workbench.engine.holds import BEAT, Held
from workbench.engine.opening import Opened, holds_path
from workbench.engine.serve import serve_session
from workbench.gate.records import Outcome, Stage, Verdict
from workbench.gate.sanitizer.run import find_sanitizer
from workbench.measure.gpus import list_gpus
from workbench.problems.load import load_problem
from workbench.session.records import Answer, Budget, Mode, Transition
from workbench.session.store import SessionStore

pytestmark = pytest.mark.gpu

STEPS = 3
LIMIT = 120.0
SLOW = ("profile.not-faster", "profile.slower", "profile.cannot-tell")
SIDECAR = """
family = "normalization"
precision = "ieee"

[[shape]]
name = "tiny"
values = { ROWS = 3, COLS = 1500 }

[[shape]]
name = "full"
"""


def small_softmax(folder: Path) -> Path:
    """The shipped problem at 128 MiB, so that a step takes seconds; its kernel reads two sizes."""
    shipped = load_problem("softmax")
    text = shipped.source.replace("ROWS = 4096", "ROWS = 1024").replace("98304", "16384")
    assert text != shipped.source
    (folder / "small.py").write_text(text)
    (folder / "small.toml").write_text(SIDECAR)
    (folder / "kernel.py").write_text(shipped.seed.read_text())
    return folder / "small.py"


def ran(folder: Path, **request: object) -> tuple[list[Transition], list[ev.AnyEvent]]:
    """A session of a few steps: its transitions, and what was told."""
    known = {
        "problem": str(small_softmax(folder)),
        "kernel": folder / "kernel.py",
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
    tell(found, heard)
    return found, heard


def tell(found: list[Transition], heard: list[ev.AnyEvent]) -> None:
    """What matters of a session, for whoever reads the test's output."""
    seconds: Counter[str] = Counter()
    did: defaultdict[str, list[str]] = defaultdict(list)
    for one in found:
        for visit in one.rungs:
            gpu = visit.gpu.partition(" ")[0] or "no GPU"
            seconds[gpu] += visit.gpu_seconds
            did[gpu].append(f"v{one.number} {visit.rung} {visit.gpu_seconds:.1f} s")
        rungs = "; ".join(f"{v.rung} {v.action} {v.gpu[:6]}: {v.reason}" for v in one.rungs)
        cost = f"{one.cost.gpu_seconds:.1f} GPU-s, {one.cost.wall_seconds:.1f} s"
        print(f"\nv{one.number} {one.decision.answer}, {cost}, {one.gate.gpu}: {one.gate.says}")
        print(f"    {rungs}")
    used = Counter(type(e).__name__ for e in heard if isinstance(e, ev.AheadUsed | ev.AheadDropped))
    notes = [e.says for e in heard if isinstance(e, ev.Note)]
    for gpu, jobs in sorted(did.items()):
        print(f"\n{gpu}: {seconds[gpu]:.1f} GPU-s: {', '.join(jobs)}")
    print(f"\nGPU-seconds {dict(seconds)}; begun ahead {dict(used)}; notes {notes}")


def proven(one: Transition) -> bool:
    """Whether every stage of the whole gate passed, on a GPU that is named, in two timing runs."""
    passed = all(report.outcome is Outcome.PASSED for report in one.gate.stages)
    runs = [samples.run for samples in one.gate.samples]
    twice = one.parent is None or runs[:2] == ["first", "second"]
    whole = passed and len(one.gate.stages) == len(Stage) and one.gate.rung == 2
    return whole and twice and one.gate.gpu.startswith("cuda:")


def test_a_step_is_timed_before_it_is_compared_and_kept_only_after_both(tmp_path):
    found, _ = ran(tmp_path)
    assert len(found) > 1
    for one in found[1:]:
        compared = one.gate.report(Stage.CORRECTNESS).outcome
        if one.decision.answer is Answer.ACCEPTED:
            assert proven(one)
        elif one.gate.code in SLOW and len(one.gate.samples) == 1:
            assert compared is Outcome.SKIPPED
            assert one.gate.speed.pairs >= 14
        assert one.gate.samples or one.gate.stage is not Stage.PROFILE


def test_a_limit_of_gpu_seconds_holds_with_the_last_look_in_it(tmp_path):
    """All that a run held the GPU for is in git; a step that began may overrun."""
    limit = Budget(steps=STEPS, gpu_seconds=LIMIT)
    found, heard = ran(tmp_path, budget=limit)
    snapshot = Opened(tmp_path / "one").snapshot()
    print(f"\n{status_text(snapshot)}")
    dearest = max(one.cost.gpu_seconds for one in found)
    assert snapshot.spent.gpu_seconds <= LIMIT + dearest
    told = [e.cost.gpu_seconds for e in heard if isinstance(e, ev.BudgetSpent)]
    assert told[-1] == pytest.approx(snapshot.spent.gpu_seconds, abs=0.01)
    looks = [one for one in SessionStore.open(tmp_path / "one").overview().spends if one.verdict]
    best = next(one for one in snapshot.versions if one.best)
    if find_sanitizer() is not None and best.parent is not None:
        (look,) = looks
        assert look.version == best.number
        assert look.cost.gpu_seconds > 1


def test_a_beam_on_a_gpu_gates_the_best_of_its_looks(tmp_path):
    found, _ = ran(tmp_path, beam=3)
    looks = [v for one in found[1:] for v in one.rungs if v.rung == "smoke"]
    assert len(looks) >= 2
    assert all(v.gpu_seconds > 0 for v in looks)
    assert all(v.speed is None or v.speed.pairs == 14 for v in looks)
    kept = [one for one in found[1:] if one.decision.answer is Answer.ACCEPTED]
    assert kept, "softmax has a gain that the cards find"
    assert all(proven(one) and one.gate.verdict is Verdict.ACCEPTED for one in kept)


@pytest.mark.skipif(len(list_gpus()) < 2, reason="needs two GPUs")
@pytest.mark.parametrize(
    ("device", "beam"), [("cuda:0,cuda:1", 1), ("cuda:all", 1), ("cuda:all", 4)]
)
def test_several_gpus_work_for_one_session_and_every_record_names_its_own(tmp_path, device, beam):
    # What is begun ahead on the other GPUs comes to be when the step before it is refused.
    count = 2 if device != "cuda:all" else len(list_gpus())
    steps = Budget(steps=STEPS + count)
    found, heard = ran(tmp_path, device=device, beam=beam, budget=steps)
    settings = SessionStore.open(tmp_path / "one").settings()
    assert settings.device_indices == tuple(range(count))
    named = {v.gpu for one in found for v in one.rungs if v.gpu}
    named |= {one.gate.gpu for one in found if one.gate.gpu}
    gpus = {name.partition(" ")[0] for name in named}
    assert gpus <= {f"cuda:{place}" for place in range(count)}
    assert len(gpus) > 1, "a second GPU had work"
    assert len({name.partition(" ")[2] for name in named}) == len(gpus), "each under its own UUID"
    committed = [e.number for e in heard if isinstance(e, ev.TransitionCommitted)]
    assert committed == list(range(len(found)))
    for one in found:
        if one.decision.answer is Answer.ACCEPTED:
            assert proven(one)


def test_a_rung_that_had_its_share_takes_only_clear_gains(tmp_path, monkeypatch):
    """With a share that is had at once, smoke decides who climbs, and the others wait."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    (tmp_path / "settings" / "workbench").mkdir(parents=True)
    shares = "[rung.bench]\nshare = 0.001\n"
    (tmp_path / "settings" / "workbench" / "ladder.toml").write_text(shares)
    limit = Budget(steps=STEPS + 3, gpu_seconds=LIMIT)
    found, _ = ran(tmp_path, budget=limit)
    later = [one for one in found[2:] if one.plan.held is None and one.gate.rung > 0]
    assert later
    for one in later:
        smoke = next(v for v in one.rungs if v.rung == "smoke")
        assert smoke.asked
        if one.gate.code == HELD:
            assert "bench has had its 0.1 % of --gpu-seconds" in one.gate.says
        elif any(v.rung == "bench" for v in one.rungs):
            assert smoke.speed is None or smoke.speed.low > 1.01


def test_a_killed_engine_leaves_what_its_step_had_of_the_gpu(tmp_path):
    """Killed while the first step is timed, the resumed run pays for at least a second of it."""
    known = {"problem": str(small_softmax(tmp_path)), "kernel": tmp_path / "kernel.py"}
    path = create_session(
        RunRequest(
            **known,
            mode=Mode.AUTO,
            device="auto",
            target="",
            budget=Budget(steps=STEPS),
            proposer="skills",
            name="one",
            sessions=tmp_path,
        )
    )
    store = SessionStore.open(path)
    words = [sys.executable, "-m", "workbench.engine.process", str(path)]
    engine = subprocess.Popen(words)
    file, until, seconds = holds_path(store), time.monotonic() + LIMIT, 0.0
    while seconds < BEAT and time.monotonic() < until and engine.poll() is None:
        if store.git.ids("refs/attempts/0000") and file.exists():
            held = msgspec.json.decode(file.read_bytes(), type=Held)
            seconds = held.ended + sum(held.open.values())
    engine.kill()
    engine.wait(60)
    ended = serve_session(path)
    assert ended.how in {"budget", "finished"}, ended.says
    spends = store.overview().spends
    print(f"\n{[(one.title(), one.cost.gpu_seconds) for one in spends]}")
    assert any(one.purpose == "cut off" and one.cost.gpu_seconds >= BEAT for one in spends)
