"""Makes the processes that the kill test kills: each records and decides without end, and says
what is done. They are forks of one that has everything imported, so that a kill costs no start."""

import os
import sys
from pathlib import Path

import msgspec
from session_kit import kernel, transition

from workbench.session.journal import Journal
from workbench.session.lock import EngineLock
from workbench.session.records import Answer, Decision
from workbench.session.store import SessionStore


def say(what: str, value: int) -> None:
    print(what, value, flush=True)


def write(folder: Path) -> None:
    store = SessionStore.open(folder)
    with (
        EngineLock(store.state / "engine.lock", session=folder.name),
        Journal(store.state / "exchange.jsonl") as paid,
    ):
        store.recover()
        say("ready", 0)
        while True:
            number = store.next_number()
            say("paid", paid.append(exchange(number), durable=True))
            overview = store.overview()
            waiting = [v.number for v in overview.versions if v.answer is Answer.PENDING]
            if waiting:
                answer = (Answer.ACCEPTED, Answer.VETOED)[waiting[0] % 2]
                store.decide(waiting[0], Decision(answer=answer, by="person"), best=True)
                say("decided", waiting[0])
            elif number % 3 == 1:
                made = transition(number, overview.main, Answer.PENDING)
                store.record_pending(made, kernel(number))
                say("waits", number)
            else:
                answer = Answer.REJECTED if number % 3 == 2 else Answer.ACCEPTED
                parent = None if number == 0 else overview.main
                store.record(transition(number, parent, answer), kernel(number))
                say("recorded", number)


def exchange(number: int):
    return lambda seq: msgspec.json.encode({"seq": seq, "number": number})


def nursery(folder: Path) -> None:
    """A writer for each line of input, one at a time; says its process, and its death."""
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            os.setsid()
            say("writer", os.getpid())
            write(folder)
        os.waitpid(child, 0)
        say("dead", child)


if __name__ == "__main__":
    nursery(Path(sys.argv[1]))
