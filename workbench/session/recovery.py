"""What a killed engine left half done in a session, and the moves that finish it."""

import time
from pathlib import Path

from workbench.session.layout import BEST, MAIN, attempt_ref, lock_files, numbered
from workbench.session.moves import MOVES, read_moves
from workbench.session.plumbing import NO_REF, Plumbing, Update
from workbench.session.trailers import Summary

_STALE_LOCK = 0.3
"""Seconds after which a reference's lock belongs to nobody: git holds one for milliseconds."""


def drop_stale_locks(git_dir: Path) -> list[str]:
    """Remove locks of git commands that were killed; says which."""
    before = lock_files(git_dir)
    if not before:
        return []
    time.sleep(_STALE_LOCK)
    stale = [path for path in lock_files(git_dir) if path in before]
    for path in stale:
        path.unlink(missing_ok=True)
    return [f"removed {path.name}, left by a git command that was killed" for path in stale]


def unfinished_steps(git: Plumbing, heads: dict[str, Summary]) -> list[Update]:
    """What is missing of a transition's references; `heads` are `main` and `best` as they read."""
    found = git.ref_ids("refs/attempts", "refs/pending")
    updates = []
    for summary in heads.values():
        name = attempt_ref(summary.number)
        if name not in found:
            updates.append(Update(name, summary.commit, NO_REF))
            found[name] = summary.commit
    for name, id_ in found.items():
        row = numbered(name)
        if row is not None and row.pending and attempt_ref(row.number) in found:
            updates.append(Update(name, NO_REF, id_))
    return updates


def unfinished_move(git: Plumbing) -> list[Update]:
    """`main` and `best`, where the newest move is recorded and they have not followed it.

    A move is written before they move. While `main` stands where the newest one came from or went
    to, nothing was accepted since, so that both must be where it says.
    """
    moves, _ = read_moves(git.refs(MOVES))
    if not moves:
        return []
    move = moves[-1]
    names = (MAIN, BEST, *(attempt_ref(number) for number in (move.before, move.to, move.best)))
    now = git.ids(*names)
    if any(name not in now for name in names):
        return []
    if now[MAIN] not in {now[attempt_ref(move.before)], now[attempt_ref(move.to)]}:
        return []
    wanted = {MAIN: now[attempt_ref(move.to)], BEST: now[attempt_ref(move.best)]}
    return [Update(name, id_, now[name]) for name, id_ in wanted.items() if now[name] != id_]
