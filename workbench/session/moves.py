"""Moves of `main` by a person, undo and branch: each is a commit, so that nothing is lost.

`refs/moves/NNNN` names a commit whose parent is the version that `main` was at and whose files are
those of the version that it went to, as a revert has them; `git log --all` shows it in a line. The
versions themselves stay as they are under `refs/attempts`.
"""

import textwrap
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from workbench.errors import WorkbenchError
from workbench.session.plumbing import Ref
from workbench.session.records import Answer, Decision
from workbench.session.series import Series, no_member, rows_of, rows_text
from workbench.session.trailers import plain

MOVES = "refs/moves"
_SERIES = Series(prefix=MOVES)
_WIDTH = 76

Kind = Literal["undo", "branch"]


class Move(Struct, frozen=True, kw_only=True):
    """One move of `main` by a person."""

    kind: Kind
    before: int
    """The version that `main` was at."""
    to: int
    """The version that it went to."""
    best: int
    """The fastest accepted one afterwards, where `best` is."""
    undone: tuple[int, ...] = ()
    """Accepted versions that were taken back, ascending; empty for a branch."""
    restored: tuple[int, ...] = ()
    """Versions that had been taken back and stand again, because `main` went to one of them or to
    one that was made from them; ascending."""
    reason: str = ""
    at: str = ""
    """UTC, ISO 8601."""

    def says(self) -> str:
        """`undo v5: main goes back to v4`."""
        if self.kind == "branch":
            return f"branch from v{self.to}: main goes there from v{self.before}"
        return f"undo {_versions(self.undone)}: main goes back to v{self.to}"

    def decision(self) -> Decision:
        """What it makes of the decision on each version that it took back."""
        why = f"undone, main went back to v{self.to}"
        reason = f"{why}: {self.reason}" if self.reason else why
        return Decision(answer=Answer.VETOED, by="person", reason=reason, at=self.at)


move_ref, move_number = _SERIES.ref, _SERIES.number
next_move = _SERIES.following


def message(move: Move) -> str:
    """The commit message: one plain line, the reason, then trailers."""
    reason = plain(move.reason)
    trailers = {
        "Move": move.kind,
        "From-Version": str(move.before),
        "To-Version": str(move.to),
        "Best-Version": str(move.best),
        "Undone": " ".join(map(str, move.undone)),
        "Restored": " ".join(map(str, move.restored)),
        "Reason": reason,
        "At": move.at,
    }
    told = textwrap.fill(f"Person: {reason}", _WIDTH) if reason else ""
    return "\n\n".join(part for part in (move.says(), told, rows_text(trailers)) if part) + "\n"


def parse(ref: Ref) -> Move:
    """The move that a reference names. Raises WorkbenchError when it names no move."""
    rows = rows_of(ref.message)
    try:
        return msgspec.convert(
            {
                "kind": rows["Move"],
                "before": int(rows["From-Version"]),
                "to": int(rows["To-Version"]),
                "best": int(rows["Best-Version"]),
                "undone": tuple(map(int, rows.get("Undone", "").split())),
                "restored": tuple(map(int, rows.get("Restored", "").split())),
                "reason": rows.get("Reason", ""),
                "at": rows.get("At", ""),
            },
            Move,
        )
    except (KeyError, ValueError, msgspec.ValidationError) as fault:
        todo = "if you made it by hand, keep it on a branch of your own (`git branch mine`)"
        raise no_member(ref, "not a move of the workbench", fault, todo) from fault


def read_moves(refs: Iterable[Ref]) -> tuple[tuple[Move, ...], dict[str, str]]:
    """The moves among the references, oldest first, and why others with such names are invalid."""
    return _SERIES.read(refs, parse)


def undone_by(moves: Sequence[Move]) -> dict[int, Move]:
    """The versions that are taken back now, each with the move that did it."""
    undone: dict[int, Move] = {}
    for move in moves:
        undone.update(dict.fromkeys(move.undone, move))
        for number in move.restored:
            undone.pop(number, None)
    return undone


def unmoved(move: Move, why: str, where: str) -> WorkbenchError:
    """The error for a move that cannot be made."""
    return WorkbenchError(
        f"main cannot go to v{move.to}: {why}",
        where=where,
        todo="`workbench log` lists the versions; `git log --all` tells who moved `main`",
    )


def foreign_main(number: int, main: str, commit_id: str, where: str) -> WorkbenchError:
    """The error for a step that is recorded while `main` stays where a person moved it."""
    return WorkbenchError(
        f"v{number} is recorded, but `main` was moved by hand to {main[:10]} and stays there",
        where=where,
        todo="keep your commit with `git branch mine main`, then `git branch -f main"
        f" {commit_id[:10]}` (or `git reset --keep {commit_id[:10]}` while on it)",
    )


def _versions(numbers: Sequence[int]) -> str:
    return ", ".join(f"v{number}" for number in numbers)
