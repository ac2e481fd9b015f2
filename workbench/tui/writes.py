"""What accept and veto would write to git, or why there is nothing to answer."""

from pathlib import Path

from workbench.engine.view import Snapshot, Version
from workbench.session.names import spoken
from workbench.tui.scene import ALIVE, version_of


def writes(snapshot: Snapshot, number: int, room: int) -> str:
    """The fullest sentence of at most `room` cells."""
    version = version_of(snapshot, number)
    if version is None:
        return ""
    if snapshot.pending != number:
        return f"{version.commit[:9]} {version.answer}; read only"
    if snapshot.state not in ALIVE:
        whole = f"no engine runs: workbench resume {spoken(Path(snapshot.path))}, then decide"
        # Half a command is none.
        return whole if len(whole) <= room else "no engine runs: go on with the run, then decide"
    ref, line = f"attempts/{number:04d}", "main and best" if _best(snapshot, version) else "main"
    stays = f"v{snapshot.incumbent}" if snapshot.incumbent is not None else "where it is"
    verb = "move" if " " in line else "moves"
    forms = (
        f"accept: commit refs/{ref}, {line} {verb} to it; veto: commit it, main stays {stays}",
        f"accept: commit {ref}, {line} {verb}; veto: main stays {stays}",
        f"accept: commit {ref}, main moves; veto: it stays",
        "accept moves main, veto does not",
    )
    return next((form for form in forms if len(form) <= room), forms[-1])


def _best(snapshot: Snapshot, version: Version) -> bool:
    """Whether accepting makes it the fastest, by speeds of one kind."""
    best = version_of(snapshot, snapshot.best)
    ours, theirs = version.speed_vs_seed, best.speed_vs_seed if best is not None else None
    if ours is None or theirs is None or ours.kind is not theirs.kind:
        return False
    return ours.ratio > theirs.ratio
