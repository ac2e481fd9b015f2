"""A killed engine's GPU-seconds: what its step had spent at least is paid for, and never twice."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from beam_parts import Ridge
from engine_parts import ScriptedWorkplace, new_session, report
from msgspec import structs
from session_kit import step
from test_engine_beam import rows
from test_engine_rungs import shop, sitting
from test_engine_smoke import NOT, looked

from workbench.cli.report import status_text
from workbench.engine.holds import BEAT, Held, Holds, left_by_killed, mark_of
from workbench.engine.opening import Opened, holds_path
from workbench.engine.serve import serve_session
from workbench.measure.gpulock import gpu_lock, noted
from workbench.session.bundle import export_bundle, import_bundle
from workbench.session.check import check_session
from workbench.session.objects import blob, tree
from workbench.session.plumbing import Update
from workbench.session.queue import QUEUE, Queued, Seen, keep, read
from workbench.session.records import Budget
from workbench.session.store import SessionStore

__all__ = ["shop"]

HERE = Path(__file__).parent
SECONDS = 60.0
"""For a file that never comes."""


class Clock:
    """Seconds that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        return self.now

    def pass_(self, seconds: float) -> None:
        self.now += seconds


def told(path: Path, records: int = 0, queue: tuple[Queued, ...] = ()) -> float:
    return round(left_by_killed(path, mark_of(records, queue)), 3)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def holds(tmp_path, clock) -> Holds:
    return Holds(tmp_path / "held.json", 0, (), now=clock)


# What the file says


def test_a_hold_that_ended_counts_until_a_record_has_it(tmp_path, holds, clock):
    path = tmp_path / "held.json"
    with holds.held("GPU-1"):
        clock.pass_(3.0)
    assert told(path) == 3.0
    assert told(path, records=1) == 0.0, "a record came just before the end: it may have it"
    holds.recorded(1)
    assert told(path, records=1) == 0.0


def test_what_lasts_is_kept_beside_another_candidates_record(tmp_path, holds, clock):
    path = tmp_path / "held.json"
    with holds.held("GPU-1"):
        clock.pass_(3.0)
        with holds.held("GPU-0"):
            clock.pass_(2.0)
        holds.recorded(1)
        assert told(path, records=1) == 5.0, "GPU-1 works for another candidate"
        assert told(path, records=2) == 5.0
    assert told(path, records=1) == 5.0


def test_two_holds_of_one_gpu_at_once_count_once_and_those_of_two_gpus_twice(
    holds, clock, tmp_path
):
    with holds.held("GPU-0"), holds.held("GPU-0"):
        clock.pass_(2.0)
    assert told(tmp_path / "held.json") == 2.0
    with holds.held("GPU-0"), holds.held("GPU-1"):
        clock.pass_(2.0)
    assert told(tmp_path / "held.json") == 6.0
    with holds.held("GPU-0"):
        clock.pass_(2.0)
        with holds.held("GPU-0"):
            clock.pass_(2.0)
        clock.pass_(2.0)
    assert told(tmp_path / "held.json") == 12.0, "from the first's beginning to the last's end"


def test_looks_that_are_written_down_are_not_a_killed_engines(tmp_path, holds, clock):
    path = tmp_path / "held.json"
    seen = Seen(report=report(), wall_seconds=1.0)
    queue = (Queued(parent=0, plan=step(), source="# a\n", seen=seen),)
    with holds.held("GPU-0"):
        clock.pass_(4.0)
    holds.queued(queue)
    assert told(path, queue=queue) == 0.0
    assert told(path) == 0.0


def test_a_killed_engines_seconds_are_carried_until_somebody_pays(tmp_path, clock):
    path = tmp_path / "held.json"
    holds = Holds(path, 0, (), 7.0, now=clock)
    holds.recorded(1)
    assert told(path, records=1) == told(path, records=9) == 7.0
    holds.close()
    assert told(path) == 7.0
    holds.paid()
    assert told(path, records=1) == 0.0


@pytest.mark.parametrize(
    "text",
    [
        *(b"", b"{", b"[]", b"\x00" * 40),
        b'{"mark":"x","ended":-5}',
        b'{"mark":"x","ended":1e999}',
        b'{"mark":"x","ended":0.0004}',
    ],
)
def test_a_torn_file_says_nothing(tmp_path, text):
    (tmp_path / "held.json").write_bytes(text)
    assert left_by_killed(tmp_path / "held.json", "x") == 0.0


def test_an_engine_that_holds_no_gpu_writes_nothing(tmp_path, holds):
    holds.recorded(1)
    holds.queued(())
    holds.close()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_stops_no_run_and_leaves_nothing_that_was_paid_since(tmp_path, holds, clock):
    with holds.held("GPU-0"):
        clock.pass_(2.0)
        holds.recorded(0)
        assert told(tmp_path / "held.json") == 2.0
        (tmp_path / "held.tmp").mkdir()
        holds.recorded(1)
    assert told(tmp_path / "held.json", records=1) == 0.0
    nowhere = Holds(Path("/nowhere/held.json"), 0, (), now=clock)
    with nowhere.held("GPU-0"):
        nowhere.recorded(1)


def test_locks_of_this_process_are_noted_and_spare_workers_are_not(tmp_path, holds, clock):
    path = tmp_path / "held.json"
    with noted(holds.held):
        with gpu_lock("GPU-0", folder=tmp_path):
            clock.pass_(2.0)
        with gpu_lock("GPU-0", shared=True, folder=tmp_path, counted=False):
            clock.pass_(9.0)
    with gpu_lock("GPU-0", folder=tmp_path):
        clock.pass_(5.0)
    assert told(path) == 2.0


# A real kill


class Holding(ScriptedWorkplace):
    """Its third candidate holds a GPU until somebody kills the engine."""

    stuck = 3
    folder: Path

    def gate(self, source, parent, number, tell):
        with gpu_lock("GPU-test", folder=self.folder):
            if number == self.stuck:
                time.sleep(SECONDS)
            return structs.replace(super().gate(source, parent, number, tell), gpu_seconds=0.5)


def holding(folder: Path, *, stuck: int) -> None:
    """Run a session of `folder`."""
    kind = type("Kind", (Holding,), {"stuck": stuck, "folder": folder.parent})
    serve_session(folder, open_workplace=kind)


def program(call: str) -> list[str]:
    """An engine in a process of its own."""
    return [sys.executable, "-c", f"from test_engine_cut_off import Path, holding, telling; {call}"]


def killed_while_it_holds(folder: Path, stuck: int) -> float:
    """Kill an engine once its file shows more than a beat of a hold; what the file says then."""
    engine = subprocess.Popen(program(f"holding(Path({str(folder)!r}), stuck={stuck})"), cwd=HERE)
    path, until = holds_path(SessionStore.open(folder)), time.monotonic() + SECONDS
    seconds = 0.0
    while seconds < BEAT and time.monotonic() < until and engine.poll() is None:
        if path.exists():
            seconds = sum(msgspec.json.decode(path.read_bytes(), type=Held).open.values())
    engine.send_signal(signal.SIGKILL)
    engine.wait(SECONDS)
    return seconds


@pytest.mark.parametrize("stuck", [0, 3])
def test_resume_pays_at_least_what_a_killed_step_had_spent_and_once(tmp_path, stuck):
    """Also where the very first kernel was under way: then there was no version to pay beside."""
    folder = tmp_path / "one"
    store = new_session(folder, budget=Budget(steps=4))
    seen = killed_while_it_holds(folder, stuck)
    assert seen >= BEAT
    assert store.overview().spends == ()
    holding(folder, stuck=-1)
    (cut,) = store.overview().spends
    assert (cut.purpose, cut.verdict) == ("cut off", None)
    assert cut.cost.gpu_seconds >= seen - 0.001
    assert cut.title() == f"cut off, at least beside v{2 if stuck else 0}"
    assert "at least" in cut.says
    snapshot = Opened(folder).snapshot()
    assert snapshot.spent.gpu_seconds == pytest.approx(5 * 0.5 + cut.cost.gpu_seconds, abs=0.01)
    assert f"cut off, at least {cut.cost.gpu_seconds:.1f}" in status_text(snapshot)
    assert check_session(store) == ()
    holding(folder, stuck=-1)
    assert store.overview().spends == (cut,), "it is paid once"
    export_bundle(store, tmp_path / "one.bundle")
    there = import_bundle(tmp_path / "one.bundle", tmp_path / "there")
    assert there.overview().spends == (cut,)


# Looks of a beam


class Telling(Ridge):
    """It writes a line for each look that takes a GPU."""

    def looked(self, source: str) -> None:
        with (Path(self.store.folder) / "looks.txt").open("a") as file:
            file.write(f"{source!r}\n")


def telling(folder: Path, die_after: int) -> None:
    """Run a session of `folder`; die at once after so many commits."""
    from workbench.engine import events as ev

    done: list[int] = []

    def listen(event) -> None:
        if isinstance(event, ev.TransitionCommitted):
            done.append(event.number)
            if len(done) == die_after:
                signal.raise_signal(signal.SIGKILL)

    serve_session(folder, open_workplace=Telling, listen=listen)


def test_a_resumed_beam_looks_at_nothing_again(tmp_path):
    """Killed after every commit, it takes the few pairs of each candidate once."""
    folder, whole = tmp_path / "one", tmp_path / "whole"
    for one in (folder, whole):
        new_session(one, budget=Budget(steps=12))
    telling(whole, -1)
    for die_after in (1, 2, 1, 3, 1, 1, 2):
        words = program(f"telling(Path({str(folder)!r}), {die_after})")
        subprocess.run(words, cwd=HERE, check=False)
    telling(folder, -1)
    assert rows(folder) == rows(whole)
    looks = (folder / "looks.txt").read_text().splitlines()
    assert len(looks) == len(set(looks))
    assert sorted(looks) == sorted((whole / "looks.txt").read_text().splitlines())


def test_a_look_that_json_cannot_hold_is_asked_again_and_stops_no_resume(tmp_path):
    store = new_session(tmp_path / "one")
    odd = structs.replace(report(), gpu_seconds=float("inf"))
    for seen in (Seen(report=report(), wall_seconds=1.0), Seen(report=odd, wall_seconds=1.0)):
        one = Queued(parent=0, plan=step(), source="# a\n", action="hold", seen=seen)
        keep(store.git, [one])
        (back,) = read(store.git)
        assert back == structs.replace(one, seen=None if seen.report is odd else seen)
    older = msgspec.json.encode([one])[:-2] + b',"seen":{"report":{"of":"an older workbench"}}}]'
    made = blob(older)
    root = tree({"queue.json": made.id})
    store.git.store([made, root])
    store.git.move([Update(QUEUE, root.id, store.git.ids(QUEUE)[QUEUE])], "queue")
    assert read(store.git) == (structs.replace(one, seen=None),)


def recalled(shop, seen: Seen):
    def smoke(_sitting):
        pytest.fail("the pairs are taken again")

    one = sitting(shop, None, None, smoke=smoke, worth=lambda _history: NOT)
    one.recall(seen)
    one.attend()
    one.begin()
    return one


@pytest.mark.parametrize("paid", [False, True])
def test_what_was_seen_ranks_a_candidate_as_before_and_is_paid_once(shop, paid):
    asked = sitting(shop, None, None, smoke=lambda _s: looked(1.2), worth=lambda _history: NOT)
    asked.begin()
    look = asked.look()
    one = recalled(shop, structs.replace(asked.seen, paid=paid))
    assert one.look() == look
    judged = one.put_aside("profile.held", "others go first")
    assert judged.report.gpu_seconds == (0.0 if paid else 2.0)
    assert judged.rungs[-1].gpu_seconds == 2.0, "a look's price is what it took"
