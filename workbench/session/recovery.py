"""What a killed engine left half done in a session, and the moves that finish it."""

import os
import time
from pathlib import Path

from workbench.session.layout import BEST, MAIN, attempt_ref, lock_files, numbered
from workbench.session.moves import MOVES, read_moves
from workbench.session.plumbing import NO_REF, Plumbing, Update
from workbench.session.trailers import Summary

_PATIENCE = 5.0
"""Seconds to wait for a git command that works on the session; it takes milliseconds, and longer on
a busy machine or where a person packs a repository."""


def drop_stale_locks(git_dir: Path) -> list[str]:
    """Remove locks of git commands that were killed; says which.

    While a git command works on the repository its locks are waited for, and then left: whoever
    writes next is told about them.
    """
    began = time.monotonic()
    while lock_files(git_dir) and _git_at_work(git_dir):
        if time.monotonic() - began > _PATIENCE:
            return []
        time.sleep(0.05)
    stale = lock_files(git_dir)
    for path in stale:
        path.unlink(missing_ok=True)
    return [f"removed {path.name}, left by a git command that was killed" for path in stale]


def _git_at_work(git_dir: Path) -> bool:
    """Whether a git command runs in the session's folder or was pointed at its repository."""
    place = os.fsencode(git_dir)
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if not (process / "comm").read_bytes().startswith(b"git"):
                continue
            here = (process / "cwd").readlink()
            named = (process / "environ").read_bytes().split(b"\0")
        except OSError:  # it has ended, or is somebody else's
            continue
        if here.is_relative_to(git_dir.parent) or b"GIT_DIR=" + place in named:
            return True
    return False


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
