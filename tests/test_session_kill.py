"""`kill -9` at any moment loses no committed transition and no paid reply."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from session_kit import kernel, new_store

from workbench.session.check import check_session
from workbench.session.journal import read_records
from workbench.session.records import Answer
from workbench.session.store import SessionStore

KILLS = 44
WRITER = Path(__file__).with_name("session_writer.py")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return new_store(tmp_path).folder


@pytest.fixture
def nursery(folder: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(WRITER), str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def killed_writer(
    nursery: "subprocess.Popen[str]", moments: random.Random, *, with_children: bool
) -> dict[str, set[int]]:
    """What a writer said was done before it was killed somewhere in the midst of the next thing."""
    assert nursery.stdin is not None
    assert nursery.stdout is not None
    print("next", file=nursery.stdin, flush=True)
    writer = int(nursery.stdout.readline().removeprefix("writer "))
    lines = [nursery.stdout.readline() for _ in range(moments.randrange(1, 6))]
    time.sleep(moments.uniform(0, 0.04))
    # Alone, its running git command lives on and finishes.
    children = Path(f"/proc/{writer}/task/{writer}/children")
    victims = children.read_text().split() if with_children and children.exists() else []
    for victim in (writer, *map(int, victims)):
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
    while (line := nursery.stdout.readline()) != f"dead {writer}\n":
        lines.append(line)
    said: dict[str, set[int]] = {}
    for line in lines:
        what, _, number = line.partition(" ")
        said.setdefault(what, set()).add(int(number))
    return said


@pytest.mark.slow
def test_kills_at_random_moments_lose_nothing_that_was_said_to_be_done(
    folder: Path, nursery: "subprocess.Popen[str]"
) -> None:
    moments = random.Random(20261129)
    recorded: set[int] = set()
    waits: set[int] = set()
    paid = 0
    for kill in range(KILLS):
        said = killed_writer(nursery, moments, with_children=kill % 2 == 0)
        recorded |= said.get("recorded", set()) | said.get("decided", set())
        waits = (waits | said.get("waits", set())) - recorded
        paid = max(said.get("paid", ()), default=paid)

        store = SessionStore.open(folder)  # a reader, before anything was recovered
        answers = {version.number: version.answer for version in store.summaries()}
        assert recorded <= {n for n, answer in answers.items() if answer is not Answer.PENDING}
        assert waits <= set(answers)
        assert len(read_records(store.state / "exchange.jsonl", dict).records) >= paid

        store.recover()
        assert check_session(store) == ()
        assert not store.worktree.says
        main = store.overview().main
        if main is not None:
            assert (folder / "kernel.py").read_text() == kernel(main)
            status = subprocess.run(
                ["git", "status", "--porcelain"], cwd=folder, capture_output=True, check=True
            )
            assert status.stdout == b""
    assert len(recorded) > KILLS / 4  # they got somewhere between the kills
