"""The folder of sessions: where it is, what is in it, and sessions going out and coming in."""

from difflib import get_close_matches
from pathlib import Path

from msgspec import Struct

from workbench.engine.opening import Opened
from workbench.engine.view import Snapshot, in_steps
from workbench.errors import WorkbenchError
from workbench.paths import data_home
from workbench.session.names import session_names
from workbench.session.plumbing import check_git


class SessionRow(Struct, frozen=True, kw_only=True):
    """One session in a list."""

    name: str
    state: str
    problem: str
    device: str
    versions: int
    best: str
    """`1.97x modeled` against the seed, of a lineage its expert against its start; `-` before
    anything was timed."""
    created: str
    path: str
    spent: str = ""
    """`6 steps, 43 s, 80.7 GPU-s, $0.31`."""
    todo: str = ""
    """What to do where it cannot be read."""


def sessions_folder(option: Path | None) -> Path:
    """`--sessions`, else `$XDG_DATA_HOME/workbench/sessions`; absolute. Need not exist yet."""
    return option.expanduser().resolve() if option is not None else data_home() / "sessions"


def list_sessions(folder: Path) -> list[SessionRow]:
    """Every session in the folder, newest first; one that cannot be read says so in its row.

    Raises WorkbenchError where none can be, for want of git.
    """
    names = session_names(folder)
    if names:
        check_git()
    rows = [_row(folder / name) for name in names]
    return sorted(rows, key=lambda row: row.created, reverse=True)


def _row(path: Path) -> SessionRow:
    try:
        opened = Opened(path)
        snapshot = opened.snapshot()
        created = opened.store.settings().created
    except WorkbenchError as fault:
        return SessionRow(
            name=path.name,
            state=f"unreadable: {fault.what}",
            problem="-",
            device="-",
            versions=0,
            best="-",
            created="",
            path=str(path),
            todo=fault.todo,
        )
    # Noise may show a step before the end as faster, but the end is the expert.
    lineage = snapshot.kind == "lineage"
    end = snapshot.incumbent if lineage else snapshot.best
    best = next((v for v in snapshot.versions if v.number == end), None)
    speed = best.speed_vs_seed if best is not None else None
    return SessionRow(
        name=path.name,
        state=snapshot.state.value,
        problem=snapshot.problem,
        device=snapshot.device,
        versions=len(snapshot.versions),
        best="-" if speed is None else f"{speed.ratio:.2f}x {speed.kind}",
        created=created,
        path=str(path),
        spent=_spent(snapshot),
    )


def _spent(snapshot: Snapshot) -> str:
    cost = snapshot.spent
    parts = [in_steps(snapshot.steps), f"{cost.wall_seconds:.0f} s"]
    parts += [f"{cost.gpu_seconds:.1f} GPU-s"] if cost.gpu_seconds else []
    parts += [f"${cost.usd:.2f}"] if cost.usd else []
    return ", ".join(parts)


def find_session(name: str, folder: Path) -> Path:
    """The folder of a session by name or path; the newest when `name` is empty.

    Raises WorkbenchError when there is none, naming those that are there.
    """
    if not name:
        return _newest(folder)
    if "/" in name or name.startswith("."):
        path = Path(name).expanduser().resolve()
        if (path / ".git").is_dir():
            return path
        raise WorkbenchError(
            "there is no session in this folder",
            where=str(path),
            todo="name a session's own folder; `workbench sessions --sessions DIR` lists those in "
            "DIR",
        )
    names = session_names(folder)
    if name in names:
        return folder / name
    near = get_close_matches(name, names, n=1)
    guess = f"did you mean {near[0]}? " if near else ""
    there = ", ".join(names[:12]) + (" ..." if len(names) > 12 else "") if names else "none"
    raise WorkbenchError(
        f"there is no session {name!r}",
        where=str(folder),
        todo=f"{guess}sessions here: {there}; `workbench run PROBLEM` makes one",
    )


def _newest(folder: Path) -> Path:
    names = session_names(folder)
    if not names:
        raise WorkbenchError(
            "there is no session yet",
            where=str(folder),
            todo="`workbench run softmax` makes one",
        )
    return max((folder / name for name in names), key=_touched)


def _touched(path: Path) -> float:
    """When the session last changed, by its log; a wish that was refused leaves no word there."""
    state = path / ".git" / "workbench"
    log = state / "events.jsonl"
    try:
        return (log if log.exists() else state).stat().st_mtime
    except PermissionError:
        return 0.0  # somebody else's, and never the one that is meant without a name


def export(path: Path, file: Path) -> tuple[str, ...]:
    """Write the session as one git bundle; what of it cannot be read and is left out.

    Raises WorkbenchError when it cannot be written.

    A walk that was cut off before its chain was in git gets it now, from its journal.
    """
    from workbench.engine.unwritten import unwritten
    from workbench.engine.walks import finish
    from workbench.session.bundle import export_bundle
    from workbench.session.reader import SessionReader

    if unwritten(SessionReader(path)):
        finish(path)
    return export_bundle(SessionReader(path), file)


def import_file(file: Path, folder: Path, name: str) -> Path:
    """Make a session of a bundle; returns its folder. Raises WorkbenchError when it is none."""
    from workbench.engine.hints import restore
    from workbench.session.bundle import import_bundle

    store = import_bundle(file, folder, name)
    restore(store)
    return store.folder
