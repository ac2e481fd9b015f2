"""The questions asked before `main` moves: what git will hold, and what else changes."""

from msgspec import Struct

from workbench.engine.view import Snapshot, Version
from workbench.session.records import Answer
from workbench.tui.scene import ALIVE, WORKING, version_of


class Question(Struct, frozen=True, kw_only=True):
    """A yes-or-no question, or the reason why there is none."""

    title: str = ""
    says: str = ""
    number: int = 0
    """The version to take back, or to go on from."""
    refusal: str = ""


def undo_question(snapshot: Snapshot) -> Question:
    """Ask whether to take the last accepted step back."""
    main = version_of(snapshot, snapshot.incumbent)
    refusal = _refusal(snapshot, main)
    if refusal or main is None:
        return Question(refusal=refusal or "nothing is accepted yet")
    if main.parent is None:
        return Question(refusal=f"v{main.number} is the seed: there is no step to take back")
    waits = version_of(snapshot, snapshot.pending)
    what = f"Take v{main.number} back? main goes to v{main.parent}, and the next step starts there."
    says = [what + _best(snapshot, main), _git(main.parent, main.number)]
    if waits is not None and waits.parent == main.number:
        says.append(f"v{waits.number} waits and was made from it: it is vetoed with it.")
    return Question(
        title=f"Undo v{main.number}", says="\n\n".join(says + _later(snapshot)), number=main.number
    )


def branch_question(snapshot: Snapshot, number: int | None) -> Question:
    """Ask whether to go on from the selected version."""
    main, target = version_of(snapshot, snapshot.incumbent), version_of(snapshot, number)
    refusal = _refusal(snapshot, main) or _not_there(target, main)
    if refusal or main is None or target is None:
        return Question(refusal=refusal or "nothing is accepted yet")
    if snapshot.pending is not None:
        return Question(refusal=f"v{snapshot.pending} waits for your decision first")
    what = f"Go on from v{target.number}? main goes there from v{main.number}, and the next step"
    best = f"starts there. best stays {_where_best(snapshot, target)}."
    says = [f"{what} {best}", _git(target.number, main.number)]
    return Question(
        title=f"Branch from v{target.number}",
        says="\n\n".join(says + _later(snapshot)),
        number=target.number,
    )


def _refusal(snapshot: Snapshot, main: Version | None) -> str:
    if snapshot.kind != "run":
        return "a lineage is a record of a walk; only in a run does main move"
    if main is None and snapshot.versions:
        return "main is at no version of this session; git log --all tells who moved it"
    if snapshot.pending is not None and snapshot.state not in ALIVE:
        return f"v{snapshot.pending} waits, and no engine runs: go on with the session, then decide"
    return ""


def _not_there(target: Version | None, main: Version | None) -> str:
    if target is None:
        return "its gate is still running; main only moves to accepted versions"
    if main is not None and target.number == main.number:
        return f"main is at v{main.number} already: select another version"
    if target.answer is Answer.ACCEPTED or target.undone:
        return ""
    if target.answer is Answer.VETOED:
        return f"v{target.number} was vetoed; main only moves to accepted versions"
    if target.answer is Answer.PENDING:
        return f"v{target.number} waits for your decision: accept it, or veto it"
    return f"v{target.number} did not pass the gate; main only moves to accepted versions"


def _git(to: int, left: int) -> str:
    """What git will hold: nothing is lost, and branch can go back."""
    told = f"Git records it as a commit under refs/moves, with v{to}'s files."
    return f"{told} v{left} stays under refs/attempts/{left:04d}; branch can return to it."


def _best(snapshot: Snapshot, main: Version) -> str:
    return " best moves to the fastest of the rest." if snapshot.best == main.number else ""


def _where_best(snapshot: Snapshot, target: Version) -> str:
    if target.undone:
        return "with the fastest, this one among them"
    return f"v{snapshot.best}" if snapshot.best is not None else "where it is"


def _later(snapshot: Snapshot) -> list[str]:
    """A note on when: while a step is in the gate, its parent must not change."""
    if snapshot.state not in WORKING:
        return []
    return ["It takes effect when the step in the gate is finished."]
