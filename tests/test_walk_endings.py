"""Whatever ends a walk, what it judged becomes a chain, at its end or later; why none begins."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from engine_parts import report
from msgspec import structs
from walk_parts import STEPS, ScriptedBench, small_problem, walked

from workbench.cli.learn import _stop
from workbench.engine.create import note_seed, noted_seed
from workbench.engine.interrupting import Interruption, Stopped
from workbench.engine.learning import LearnRequest, continued, create_lineage, learn
from workbench.engine.opening import lock_path
from workbench.engine.sessions import export, import_file, list_sessions
from workbench.engine.unwritten import unwritten, walk_path
from workbench.engine.walks import finish, noting, unheard, write_chain
from workbench.engine.walks import walked as lines_of
from workbench.errors import WorkbenchError
from workbench.gate.records import Stage, Verdict
from workbench.lineage.records import Ended, Termination, WalkLimits
from workbench.lineage.uncovered import failed_gate
from workbench.lineage.walk import Walk
from workbench.session.bundle import recorded
from workbench.session.journal import Journal
from workbench.session.lock import EngineLock
from workbench.session.reader import SessionReader
from workbench.session.store import SessionStore

EXPERT = Path(__file__).parent / "experts" / "gemm_persistent.py"
LEARN = [sys.executable, "-m", "workbench.cli.main", "learn"]


def begun(folder, name="walk"):
    where = ["--session", name, "--sessions", str(folder), "--json"]
    problem = str(small_problem(folder))
    return [*LEARN, str(EXPERT), "--problem", problem, "--device", "cpu", *where]


def ended_by(folder, number, after):
    """A real walk that gets a signal once it has told so many lines; the lines it told in all."""
    with subprocess.Popen(begun(folder), stdout=subprocess.PIPE, text=True) as process:
        lines = []
        for line in process.stdout:
            lines.append(json.loads(line))
            if len(lines) == after:
                os.kill(process.pid, number)
    return lines, process.returncode


def chain_of(store):
    return store.overview().line()


def test_a_signal_ends_a_walk_with_its_chain_written(tmp_path):
    lines, code = ended_by(tmp_path, signal.SIGTERM, after=2)
    assert code == 130
    assert lines[-1]["how"] == "interrupted"
    assert lines[-1]["says"] == "by SIGTERM; 1 steps"
    store = SessionReader(tmp_path / "walk")
    assert len(chain_of(store)) == 2
    assert store.source(chain_of(store)[-1]) == EXPERT.read_text()
    assert not unwritten(store)


def worked_through(number, seen, *, while_judging):
    """Work that gets a signal twice, while it writes or while it judges."""
    with Interruption() as interruption:
        if not while_judging:
            os.kill(os.getpid(), number)
            seen.append("a line")
            os.kill(os.getpid(), number)
        with interruption.interruptible():
            os.kill(os.getpid(), number)
            seen.append("a verdict")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_waits_for_what_is_written_and_gives_up_what_is_judged(number):
    before = signal.getsignal(number)
    for while_judging, whole in ((False, ["a line"]), (True, [])):
        seen = []
        with pytest.raises(Stopped, match=number.name):
            worked_through(number, seen, while_judging=while_judging)
        assert seen == whole
        assert signal.getsignal(number) is before


def new_lineage(folder):
    return create_lineage(
        LearnRequest(
            expert=EXPERT, problem="gemm", device="cpu", target="sm90", name="walk", sessions=folder
        )
    )


@pytest.fixture
def killed(tmp_path):
    """A session whose walk was killed after two removals: its journal, and no version."""
    path = new_lineage(tmp_path)
    lines = walked(ScriptedBench())[1].lines
    with Journal(walk_path(SessionReader(path))) as journal:
        for line in lines[:3]:
            noting(journal, unheard)(line)
    return path


def test_a_killed_walk_is_told_and_export_makes_its_chain(killed, tmp_path):
    assert not SessionReader(killed).overview().versions
    assert unwritten(SessionReader(killed)) == 2
    said = subprocess.run(
        [*LEARN[:3], "status", "walk", "--sessions", str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert f"learn --session {killed} --stop" in said
    export(killed, tmp_path / "walk.bundle")
    with recorded(tmp_path / "walk.bundle") as store:
        assert store.source(chain_of(store)[-1]) == EXPERT.read_text()
        assert len(chain_of(store)) == 3
    last = lines_of(walk_path(SessionReader(killed)))[-1]
    assert isinstance(last, Ended)
    assert last.how is Termination.INTERRUPTED


def test_a_chain_that_was_cut_off_while_it_was_written_is_made_whole(killed):
    finish(killed)
    store = SessionStore.open(killed)
    line = chain_of(store)
    newest = store.git.ref_ids("refs/attempts")
    # As a kill between two commits leaves it: all but the first are not there.
    first = min(newest)
    for name in newest:
        if name != first:
            store.git.run("update-ref", "-d", name)
    for head in ("refs/heads/main", "refs/heads/best"):
        store.git.run("update-ref", head, newest[first])
    assert unwritten(store)
    finish(killed)
    assert chain_of(SessionReader(killed)) == line


def test_a_walk_that_judged_nothing_has_no_chain_to_write(tmp_path):
    path = new_lineage(tmp_path)
    assert finish(path) is None
    with pytest.raises(WorkbenchError, match="no version yet"):
        export(path, tmp_path / "w.bundle")


def test_a_running_walk_is_left_alone(killed, tmp_path):
    store = SessionReader(killed)
    with (
        EngineLock(lock_path(store), session="walk"),
        pytest.raises(WorkbenchError, match="is running in process"),
    ):
        export(killed, tmp_path / "walk.bundle")
    assert unwritten(store) == 2


def test_a_walk_that_was_ended_from_its_journal_goes_on_in_a_new_session(killed, tmp_path):
    assert continued(killed, tmp_path) == killed
    finish(killed)
    new = continued(killed, tmp_path)
    assert new != killed
    assert len(lines_of(walk_path(SessionReader(new)))) == 3


def test_a_walk_goes_on_from_a_copy_of_its_folder(killed, tmp_path):
    """As one that is brought from another machine: its old place is gone."""
    there = tmp_path / "elsewhere" / "walk"
    shutil.move(killed, there)
    before = lines_of(walk_path(SessionReader(there)))
    assert continued(there, there.parent) == there
    store = SessionStore.open(there)
    bench = ScriptedBench()
    written = []
    with Journal(walk_path(store)) as journal:
        note = noting(journal, written.append)
        walk = Walk(bench, WalkLimits(), note, before)
        walk.run(*noted_seed(store))
        write_chain(store, walk.lines)
    # Nothing that the copy holds was judged again.
    assert not {line.source for line in before} & set(bench.judged)
    assert lines_of(walk_path(store)) == [*before, *written]
    assert len(chain_of(store)) == STEPS + 1
    assert store.source(chain_of(store)[-1]) == EXPERT.read_text()


def test_a_walk_of_a_gpu_goes_on_where_there_is_one_and_says_so_where_not(killed, tmp_path):
    store = SessionStore.open(killed)
    settings = structs.replace(store.settings(), device="NVIDIA Another GPU", device_index=0)
    problem = store.problem()
    path = tmp_path / "gpu" / "walk"
    new = SessionStore.create(path, settings, problem.source, problem.sidecar)
    note_seed(new, EXPERT.read_text(), EXPERT)
    shutil.copyfile(walk_path(store), walk_path(new))
    with pytest.raises(WorkbenchError, match="timed on NVIDIA Another GPU, and there is none here"):
        learn(path, WalkLimits(), unheard, print)
    assert finish(path).how is Termination.INTERRUPTED
    with pytest.raises(WorkbenchError, match="there is none here"):
        continued(path, path.parent)
    assert [one.name for one in path.parent.iterdir()] == ["walk"], "no session is left behind"


def test_a_journal_line_is_told_only_once_it_is_on_disk(tmp_path):
    with Journal(tmp_path / "walk.jsonl") as journal:
        line = Ended(how=Termination.BUDGET, says="x")
        told = []
        noting(journal, lambda one: told.append((one, lines_of(journal.path))))(line)
        noting(journal, unheard)(line)
    assert told == [(line, [line])]


@pytest.mark.parametrize(
    ("says", "missing"),
    [
        ("'Keyword argument wonder was specified but unrecognised'", "the launch option `wonder`"),
        ("module 'triton.language' has no attribute 'wonder'", "`triton.language.wonder`"),
        ("load() got an unexpected keyword argument 'wonder'", "the keyword `wonder` of `load`"),
    ],
)
def test_an_expert_of_a_newer_triton_is_told_as_such(says, missing):
    refused = structs.replace(
        report(verdict=Verdict.REJECTED), stage=Stage.COMPILE, says=says, code="compile.x"
    )
    told = failed_gate(refused, "expert.py")
    assert told.what.startswith(f"the expert needs another Triton: {missing} is not in ")


def test_an_expert_that_nothing_speaks_against_is_not_to_be_mended():
    open_ = structs.replace(report(verdict=Verdict.UNPROVEN), device="cpu")
    assert "a GPU runs what the interpreter cannot" in failed_gate(open_, "expert.py").todo
    once = structs.replace(open_, code="profile.loop-not-proven")
    assert "give the problem's smallest shape sizes at" in failed_gate(once, "expert.py").todo
    wrong = report(verdict=Verdict.REJECTED)
    assert failed_gate(wrong, "expert.py").todo.startswith("mend it")


def test_a_lineage_is_listed_by_its_expert_against_its_start(tmp_path):
    shipped = Path(__file__).parent.parent / "sessions" / "fmha-lineage.bundle"
    import_file(shipped, tmp_path, "")
    (row,) = list_sessions(tmp_path)
    # The step before the expert reads a trifle faster, and was not paired with the start.
    assert (row.name, row.best) == ("fmha-lineage", "13.28x measured")


def test_a_lineage_that_came_as_a_bundle_is_no_walk_to_go_on_with(tmp_path):
    shipped = Path(__file__).parent.parent / "sessions" / "gdn-lineage.bundle"
    path = import_file(shipped, tmp_path, "")
    with pytest.raises(WorkbenchError, match="its chain is here, its journal is not"):
        learn(path, WalkLimits(), unheard, unheard)
    with pytest.raises(WorkbenchError, match="the chain of gdn-lineage is written"):
        _stop("gdn-lineage", tmp_path, alone=True, json=False)
