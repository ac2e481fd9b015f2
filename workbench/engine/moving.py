"""Moves of `main` that a person asks for: where it may move, and the move itself."""

import shlex
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct, structs

from workbench.engine import events as ev
from workbench.engine.history import History
from workbench.engine.opening import events_path, lock_path
from workbench.engine.wishes import AnyMove, Undo
from workbench.errors import WorkbenchError
from workbench.session.journal import Journal
from workbench.session.layout import attempt_ref
from workbench.session.lock import EngineLock
from workbench.session.moves import MOVES, Move
from workbench.session.names import spoken
from workbench.session.reader import SessionReader
from workbench.session.records import Answer, Transition
from workbench.session.store import SessionStore


class MovesMain(Protocol):
    """What a move needs of a session repository."""

    def move_main(self, move: Move) -> str:
        """Make it durable, all of it or nothing; returns the id of the commit that records it."""

    def transition(self, number: int) -> Transition:
        """The record of a version as it stands now."""


class Moved(Struct, frozen=True, kw_only=True):
    """What a move has made of a session."""

    history: History
    event: ev.MainMoved


def read_history(reader: SessionReader) -> History:
    """Every transition as it stands, and where `main` is; what cannot be read is named.

    Raises WorkbenchError where that leaves unknown what the session stands on: a version of the
    accepted line, or how a person moved `main`.
    """
    overview = reader.overview()
    transitions, faults = reader.transitions(overview)
    history = History(
        transitions=transitions,
        main=overview.main,
        undone=frozenset(overview.undone),
        spends=overview.spends,
        taken=reader.next_number() - 1,
        unread=tuple(f"{one.ref} is left out: {one.says}" for one in (*overview.unread, *faults)),
    )
    for one in overview.unread:
        if one.damaged and one.ref.startswith(f"{MOVES}/"):
            raise _damaged(reader, f"{one.ref}, a move of main: {one.says}", one.ref)
    incumbent = overview.main if overview.main is not None else max(history.kept, default=None)
    if incumbent is not None:
        for number in missing(history, incumbent):
            says = next((u.says for u in faults if u.ref == attempt_ref(number)), "it is not there")
            raise _damaged(reader, f"v{number}, on the accepted line: {says}", "")
    return history


def missing(history: History, number: int) -> list[int]:
    """The version that a line cannot do without and that is not there; empty for a whole line."""
    there = {transition.number: transition.parent for transition in history.transitions}
    at: int | None = number
    while at is not None:
        if at not in there:
            return [at]
        at = there[at]
    return []


def _damaged(reader: SessionReader, what: str, ref: str) -> WorkbenchError:
    kernel = shlex.quote(str(reader.folder / "kernel.py"))
    todo = (
        f"`workbench export {spoken(reader.folder)} FILE` saves what can be read in a bundle;"
        f" `workbench run PROBLEM --kernel {kernel}` starts again from its kernel"
    )
    if ref:
        todo = f"forget that move: `git update-ref -d {ref}` there; or {todo}"
    return WorkbenchError(
        f"the session can be looked at and not gone on with: {what}",
        where=str(reader.folder),
        todo=todo,
    )


def move_of(history: History, wish: AnyMove, at: str) -> Move:
    """What a wish would do to `main`. Raises WorkbenchError where it cannot be done."""
    main = history.main
    if main is None:
        raise WorkbenchError(
            "the session has no accepted kernel, so `main` has nowhere to go",
            todo="start another session with `workbench run PROBLEM --kernel FILE`",
        )
    if wish.number not in {t.number for t in history.transitions}:
        raise WorkbenchError(
            f"the session has no version v{wish.number}", todo="`workbench log` lists its versions"
        )
    move = _undo(history, main, wish) if isinstance(wish, Undo) else _branch(history, main, wish)
    best = history.moved(move, _restored(history, move)).best
    move = structs.replace(move, best=move.to if best is None else best.number)
    return structs.replace(move, reason=wish.reason.strip(), at=at)


def _undo(history: History, main: int, wish: AnyMove) -> Move:
    line = history.line(main)
    if wish.number not in line:
        raise WorkbenchError(
            f"v{wish.number} is not on the accepted line, so there is nothing to take back",
            todo=f"the last accepted step is v{main}",
        )
    at = line.index(wish.number)
    if at == 0:
        raise WorkbenchError(
            f"v{wish.number} is the seed, and nothing was before it",
            todo="start from another kernel with `workbench run PROBLEM --kernel FILE`",
        )
    return Move(kind="undo", before=main, to=line[at - 1], best=main, undone=line[at:])


def _branch(history: History, main: int, wish: AnyMove) -> Move:
    target = history.get(wish.number)
    if wish.number == main:
        raise WorkbenchError(
            f"main is at v{main} already", todo="nothing is to be done: the next step starts there"
        )
    stands = target.decision.answer is Answer.ACCEPTED or wish.number in history.undone
    if not stands:
        raise _not_accepted(target)
    if gone := missing(history, wish.number):
        raise WorkbenchError(
            f"v{gone[0]}, which v{wish.number} was made from, cannot be read",
            todo="`workbench status` names what is damaged; `workbench resume` puts back what git "
            "still holds",
        )
    restored = tuple(n for n in history.line(wish.number) if n in history.undone)
    return Move(kind="branch", before=main, to=wish.number, best=main, restored=restored)


def _not_accepted(target: Transition) -> WorkbenchError:
    number, answer = target.number, target.decision.answer
    if answer is Answer.PENDING:
        return WorkbenchError(f"v{number} waits for your decision", todo="accept it, or veto it")
    if answer is Answer.VETOED:
        return WorkbenchError(
            f"v{number} was vetoed, and main only moves to accepted versions",
            todo=f"`git show refs/attempts/{number:04d}:kernel.py > k.py` in the session's folder, "
            "then `workbench submit SESSION k.py` gates it again",
        )
    return WorkbenchError(
        f"v{number} did not pass the gate ({target.gate.stage}), "
        "and main only moves to accepted versions",
        todo="`workbench log` says which versions were accepted",
    )


def _restored(history: History, move: Move) -> list[Transition]:
    """Transitions that a move would restore, from which the best may be chosen."""
    found = [history.get(number) for number in move.restored]
    return [
        structs.replace(t, decision=structs.replace(t.decision, answer=Answer.ACCEPTED))
        for t in found
    ]


def carry_out(store: MovesMain, history: History, wish: AnyMove, at: str) -> Moved:
    """Do it, durably. Raises WorkbenchError where it cannot be done; then nothing has changed."""
    move = move_of(history, wish, at)
    commit = store.move_main(move)
    restored = [store.transition(number) for number in move.restored]
    says = f"{move.says()}: {move.reason}" if move.reason else move.says()
    event = ev.MainMoved(
        before=move.before, to=move.to, undone=move.undone, commit=commit, says=says
    )
    return Moved(history=history.moved(move, restored), event=event)


def move_alone(path: Path, wish: AnyMove, at: str) -> str:
    """Do it in a session that no engine runs; says what was done.

    Raises WorkbenchError where it cannot be done, an engine holds the session, or a version waits.
    """
    store = SessionStore.open(path)
    if store.settings().kind != "run":
        raise WorkbenchError(
            f"session {path.name} is the record of a walk; only in a run does main move",
            where=str(path),
            todo="`workbench run PROBLEM --kernel FILE` starts a run from one of its kernels",
        )
    with (
        EngineLock(lock_path(store), session=path.name),
        Journal(events_path(store)) as journal,
    ):
        store.recover()
        history = read_history(store)
        waiting = history.pending
        if waiting is not None:
            raise WorkbenchError(
                f"v{waiting.number} waits for your decision first",
                where=f"session {path.name}",
                todo=f"workbench resume {spoken(path)}, then accept or veto it",
            )
        event = structs.replace(carry_out(store, history, wish, at).event, at=at)
        says = [event.says]
        if folder := store.worktree.says:
            says.append(f"the session's folder: {folder}")
        try:
            journal.append(
                lambda seq: msgspec.json.encode(structs.replace(event, seq=seq)), durable=True
            )
        except WorkbenchError as fault:
            # Git holds the move; the journal only tells of it.
            says.append(f"its line in the journal is missing: {fault.what}")
    return "\n".join(says)
