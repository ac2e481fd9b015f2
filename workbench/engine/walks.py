"""A walk on disk: its journal, and the chain that is written to git however the walk ended.

The journal has every judged removal before the next one begins; the chain is written when the walk
ends. What ends it early (a signal, a fault) writes the chain on the way out; what cannot (`kill
-9`, the machine) leaves the journal, and `finish` makes the chain of that later.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from workbench.agents.ledger import read_lines
from workbench.engine.history import History
from workbench.engine.opening import lock_path
from workbench.engine.unwritten import walk_path
from workbench.errors import WorkbenchError
from workbench.kernels.source import normalized_sha256
from workbench.lineage.chain import transitions
from workbench.lineage.records import Attempt, Ended, Line, Termination
from workbench.session.journal import Journal, Tail
from workbench.session.lock import EngineLock, SessionBusyError
from workbench.session.store import SessionStore

Listen = Callable[[Line], None]


def walked(path: Path) -> list[Line]:
    """The lines of an interrupted or finished walk. Raises WorkbenchError for lines of no walk."""
    decoder = msgspec.json.Decoder(Line)
    try:
        return [decoder.decode(line) for line in Tail(path).poll()]
    except msgspec.DecodeError as fault:
        raise WorkbenchError(
            f"the walk's journal cannot be read: {fault}",
            where=str(path),
            todo="begin another session; what git has of this one stays readable",
        ) from fault


def noting(journal: Journal, listen: Listen) -> Listen:
    """Puts a line on disk, then announces it."""

    def note(line: Line) -> None:
        journal.append(lambda _number: msgspec.json.encode(line), durable=True)
        listen(line)

    return note


def write_chain(store: SessionStore, lines: Sequence[Line]) -> None:
    """Write the chain and what hangs off it; what an interrupted call has written stays."""
    there = {version.number for version in store.overview().versions}
    history, talks = History(), _talks(store, lines)
    for transition, source in transitions(lines, now()):
        history = history.plus(transition)
        if transition.number not in there:
            best = history.best is transition
            step = transition.backward
            key = None if step is None else (step.category, step.before)
            store.record(transition, source, exchange=talks.get(key, ()), best=best)


def _talks(
    store: SessionStore, lines: Sequence[Line]
) -> dict[tuple[str, str] | None, list[dict[str, Any]]]:
    """What was said with a model about each attempt that it proposed, by category and fingerprint
    of the kernel without the mechanism."""
    attempts = [line for line in lines if isinstance(line, Attempt)]
    if not any(one.by for one in attempts):
        return {}
    said = read_lines(store.state)
    return {
        (one.category, normalized_sha256(one.source)): [
            msgspec.to_builtins(line) for line in said if line.number == number
        ]
        for number, one in enumerate(attempts, start=1)
        if one.by
    }


def close_walk(store: SessionStore, journal: Journal, listen: Listen, why: str) -> Ended | None:
    """End the walk as its journal has it, and write its chain; None where nothing was judged.

    To be called by who holds the session. A walk that was closed goes on in a new session.
    """
    lines = walked(walk_path(store))
    if not any(isinstance(line, Attempt) for line in lines):
        return None
    last = lines[-1]
    if not isinstance(last, Ended):
        kept = sum(isinstance(line, Attempt) and line.accepted for line in lines)
        last = Ended(how=Termination.INTERRUPTED, says=f"{why}; {kept} steps")
        noting(journal, listen)(last)
        lines.append(last)
    write_chain(store, lines)
    return last


def finish(path: Path) -> Ended | None:
    """The chain of a walk that left none, from its journal alone: nothing is judged.

    Returns how the walk ended, None where it had judged nothing. Raises WorkbenchError when the
    walk is running, or the session cannot be read or written.
    """
    store = SessionStore.open(path)
    try:
        with (
            EngineLock(lock_path(store), session=path.name),
            Journal(walk_path(store)) as journal,
        ):
            store.recover()
            return close_walk(store, journal, unheard, "its process left no message")
    except SessionBusyError as busy:
        raise WorkbenchError(
            f"the walk of {path.name} is running{_who(busy)}, and its chain is written when it "
            "ends",
            where=str(path),
            todo="wait for it, or end it with SIGTERM or SIGINT: then the chain is written too",
        ) from busy


def _who(busy: SessionBusyError) -> str:
    return f" in process {busy.holder.pid}" if busy.holder else ""


def unheard(line: Line) -> None:
    """A listener for lines that nobody waits for."""


def now() -> str:
    """UTC in ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")
