"""Journals and the engine lock: what is on disk before it is used, and who may write it."""

import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from workbench.errors import WorkbenchError
from workbench.session.journal import Journal, Tail, last_lines, read_records
from workbench.session.lock import EngineLock, Holder, SessionBusyError, holder, socket_path


class Said(Struct):
    """A record of a journal."""

    seq: int
    text: str


def line(text: str):
    return lambda seq: json.dumps({"seq": seq, "text": text}).encode()


def texts(path: Path) -> list[str]:
    return [record.text for record in read_records(path, Said).records]


def test_lines_are_numbered_from_one_and_go_on_after_reopening(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with Journal(path) as journal:
        assert [journal.append(line(text), durable=True) for text in "ab"] == [1, 2]
    with Journal(path) as journal:
        assert journal.next_seq == 3
        assert journal.append(line("c"), durable=False) == 3
    assert [record.seq for record in read_records(path, Said).records] == [1, 2, 3]


@given(st.binary(max_size=200).filter(lambda data: b"\n" not in data))
def test_a_torn_last_line_is_unseen_and_cut_off_by_the_next_writer(torn: bytes) -> None:
    path = Path(os.environ["HOME"]) / "torn.jsonl"
    path.unlink(missing_ok=True)
    with Journal(path) as journal:
        journal.append(line("whole"), durable=False)
    with path.open("ab") as file:
        file.write(torn)
    assert texts(path) == ["whole"]
    assert len(last_lines(path, 5)) == 1
    tail = Tail(path)
    assert len(tail.poll()) == 1
    with Journal(path) as journal:
        assert journal.append(line("next"), durable=True) == 2
    assert texts(path) == ["whole", "next"]
    assert len(tail.poll()) == 1


def test_a_damaged_line_in_the_middle_is_counted_and_loses_no_other(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b'{"seq":1,"text":"a"}\n\xff\x00{"seq"\n{"seq":3,"text":"c"}\n')
    found = read_records(path, Said)
    assert [record.text for record in found.records] == ["a", "c"]
    assert found.damaged == 1


def test_a_follower_sees_each_line_once_and_nothing_half_written(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    tail = Tail(path)
    assert tail.poll() == []
    with Journal(path) as journal:
        journal.append(line("a"), durable=False)
        assert [json.loads(one)["text"] for one in tail.poll()] == ["a"]
        assert tail.poll() == []
        with path.open("ab") as file:
            file.write(b'{"half')
        assert tail.poll() == []
    with Journal(path) as journal:
        journal.append(line("b"), durable=False)
    assert [json.loads(one)["text"] for one in tail.poll()] == ["b"]
    assert Tail(path, tail.offset).poll() == []


def test_the_newest_lines_are_read_from_the_end(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    lines = [f'{{"seq":{n},"text":"{"x" * (n % 300)}"}}'.encode() for n in range(1, 2000)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    for count in (0, 1, 7, 1998, 1999, 5000):
        assert last_lines(path, count) == (lines[-count:] if count else [])
    assert last_lines(tmp_path / "none", 3) == []


def test_an_overlong_line_is_left_out_and_costs_no_time(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_bytes(b"old\n" + b"x" * (100 << 20) + b"\nnew\nnewer\n")
    began = time.process_time()
    assert last_lines(path, 5) == [b"new", b"newer"]
    assert time.process_time() - began < 2
    assert last_lines(path, 1) == [b"newer"]


def test_a_line_with_a_newline_is_a_fault_of_the_caller(tmp_path: Path) -> None:
    with Journal(tmp_path / "a.jsonl") as journal, pytest.raises(ValueError, match="newline"):
        journal.append(lambda _: b"a\nb", durable=False)


@pytest.mark.parametrize("kind", ["symlink", "fifo", "folder"])
def test_a_journal_is_never_written_through_something_else(tmp_path: Path, kind: str) -> None:
    path, victim = tmp_path / "events.jsonl", tmp_path / "victim"
    victim.write_text("precious")
    if kind == "symlink":
        path.symlink_to(victim)
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(WorkbenchError, match="journal cannot be written"):
        Journal(path)
    assert victim.read_text() == "precious"


def test_a_disk_that_fills_up_leaves_whole_lines_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        with Journal(path) as journal:
            journal.append(line("small"), durable=True)
            resource.setrlimit(resource.RLIMIT_FSIZE, (300, before[1]))
            with pytest.raises(WorkbenchError, match="journal cannot be written: File too large"):
                journal.append(line("x" * 1000), durable=True)
            assert texts(path) == ["small"]
            assert path.read_bytes().endswith(b"\n")
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            assert journal.append(line("again"), durable=True) == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert texts(path) == ["small", "again"]


# The lock

CHILD = """
import sys
import threading
from pathlib import Path
from workbench.session.lock import EngineLock
lock = EngineLock(Path(sys.argv[1]), session="softmax-1", socket="/run/a.sock")
print("held", flush=True)
sys.stdin.read()
"""


def test_one_process_owns_a_session_and_its_death_frees_it(tmp_path: Path) -> None:
    path = tmp_path / "engine.lock"
    command = [sys.executable, "-c", CHILD, str(path)]
    assert holder(path) is None
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        assert holder(path) == Holder(pid=child.pid, socket="/run/a.sock")
        with pytest.raises(SessionBusyError, match=f"run by process {child.pid}") as told:
            EngineLock(path, session="softmax-1")
        assert told.value.holder == Holder(pid=child.pid, socket="/run/a.sock")
        child.kill()
        child.wait()
    assert holder(path) is None
    with EngineLock(path, session="softmax-1") as lock:
        assert holder(path) == Holder(pid=os.getpid(), socket="")
        lock.close()
    assert holder(path) is None


def test_whoever_only_asks_who_runs_a_session_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "engine.lock"
    path.touch()
    with path.open() as asking:
        fcntl.flock(asking, fcntl.LOCK_SH)
        # Longer than an engine is waited for: a busy machine stops whoever asks in the midst of it.
        threading.Timer(0.8, lambda: fcntl.flock(asking, fcntl.LOCK_UN)).start()
        with EngineLock(path, session="softmax-1"):
            assert holder(path) == Holder(pid=os.getpid(), socket="")


def test_a_lock_is_not_taken_through_a_symlink(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "engine.lock").symlink_to(victim)
    with pytest.raises(WorkbenchError, match="cannot be locked"):
        EngineLock(tmp_path / "engine.lock", session="x")
    assert victim.read_text() == "precious"


def test_a_socket_path_fits_wherever_the_session_is(tmp_path: Path) -> None:
    deep = tmp_path / ("a" * 200) / ("b" * 200)
    assert len(os.fsencode(socket_path(deep))) <= 107
    assert socket_path(deep) != socket_path(deep.parent)
    assert socket_path(tmp_path / "x" / ".." / "y") == socket_path(tmp_path / "y")
