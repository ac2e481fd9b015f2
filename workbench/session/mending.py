"""What damage took from a session's references, and putting back what git still holds of it.

A transition's commit carries everything: the versions it was made from as ancestors, and the files
that the session started from. So most of what a torn or deleted reference named can be found again.
"""

import re
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from workbench.errors import WorkbenchError
from workbench.measure.records import Kind
from workbench.session import trailers
from workbench.session.code import CODE
from workbench.session.complaints import DamagedError
from workbench.session.creation import write_start
from workbench.session.layout import BEST, MAIN, START, attempt_ref, numbered, pending_ref
from workbench.session.moves import MOVES
from workbench.session.objects import blob
from workbench.session.own_refs import is_own
from workbench.session.plumbing import NO_REF, Plumbing, Update
from workbench.session.readable import readable
from workbench.session.reader import Overview, SessionReader
from workbench.session.records import Answer
from workbench.session.spends import SPENDS
from workbench.session.trailers import Summary
from workbench.session.worktree import in_folder

_DAMAGED = "damaged"
"""Folder beside the journals, for files of references that git cannot read."""
_OURS = ("refs/attempts", "refs/pending", "refs/session", MOVES, SPENDS, CODE, MAIN, BEST)
_PARENT = re.compile(rb"^parent ([0-9a-f]{40})$", re.MULTILINE)


class _Step(NamedTuple):
    """A commit that is a transition's."""

    id: str
    ref: str
    parents: tuple[str, ...]


def mended(session: SessionReader) -> list[str]:
    """Put back what damage took and git still holds; says what was done. Needs the engine lock.

    Raises WorkbenchError and OSError where it cannot be written.
    """
    git = session.git
    torn = _set_aside(git, session.state)
    done = [f"{name} was damaged; its file is in .git/workbench/{_DAMAGED}" for name in torn]
    done += _put_back(git, found_again(git, torn))
    done += _put_back(git, _lost_heads(session))
    done += _from_folder(git, session.state)
    if not session.start_is_whole():
        old = git.ids(START).get(START, NO_REF)
        write_start(git, session.settings(), *session.problem(), old)
        done.append(f"put back {START}, as the newest version has it")
    return done


def _put_back(git: Plumbing, found: Sequence[Update]) -> list[str]:
    if found:
        git.move(found, "mend")
    return [f"put back {update.name}, found by what git holds" for update in found]


def _set_aside(git: Plumbing, state: Path) -> list[str]:
    """Move files of references that git cannot read out of its way; their names.

    Nothing can be written under such a name before. An older value, packed, shows again.
    """
    broken = [n for n, id_ in git.ref_ids(*_OURS).items() if not id_ and _is_ours(n)]
    for name in broken:
        kept = _kept(state, f"{name.replace('/', '.')}.{secrets.token_hex(4)}")
        (git.git_dir / name).rename(kept)
    return broken


def _is_ours(name: str) -> bool:
    return is_own(name) or name == START


def _from_folder(git: Plumbing, state: Path) -> list[str]:
    """Put back files of `main` that git lost and the folder has, as they were."""
    try:
        ids = git.files(MAIN) if git.ids(MAIN) else {}
    except DamagedError:  # its tree is lost too: nobody knows what the files were
        return []
    blobs = list(ids.values())
    try:
        git.blobs(blobs)
    except DamagedError:
        found = in_folder(git.folder, set(blobs) - readable(git, "blob", blobs).keys())
    else:
        return []
    for id_ in found:
        # Git writes no object whose file is there, however damaged.
        path = git.git_dir / "objects" / id_[:2] / id_[2:]
        if path.exists():
            path.rename(_kept(state, f"{id_}.{secrets.token_hex(4)}"))
    if found:
        git.store([blob(data) for data in found.values()])
    names = sorted(name for name, id_ in ids.items() if id_ in found)
    return [f"put back {name} of main, found in the folder" for name in names]


def _kept(state: Path, name: str) -> Path:
    """Where something damaged is kept."""
    folder = state / _DAMAGED
    folder.mkdir(exist_ok=True)
    return folder / name


def found_again(git: Plumbing, damaged: Iterable[str]) -> list[Update]:
    """References of transitions that are missing although their commits exist.

    Of those that others were made from always; of any other only where its reference is among the
    `damaged`, since a person may have deleted it, and where just one commit can have been meant.
    """
    refs = git.refs("refs/attempts", "refs/pending", MAIN, BEST)
    there = {ref.name for ref in refs if ref.id}
    found: dict[str, str] = {}
    queue = {ref.parent for ref in refs if ref.parent} - {ref.id for ref in refs}
    seen: set[str] = set()
    while queue - seen:
        steps = _steps(git, queue - seen)
        seen |= queue
        found |= {step.ref: step.id for step in steps if step.ref not in there}
        queue = {parent for step in steps for parent in step.parents}
    torn = {name for name in damaged if numbered(name)} - there - found.keys()
    if torn:
        loose: dict[str, list[str]] = {}
        for step in _steps(git, git.unreachable()):
            loose.setdefault(step.ref, []).append(step.id)
        found |= {name: ids[0] for name, ids in loose.items() if name in torn and len(ids) == 1}
    return [Update(name, id_, NO_REF) for name, id_ in found.items()]


def _steps(git: Plumbing, ids: Iterable[str]) -> list[_Step]:
    """The commits that can be read and are transitions."""
    steps: list[_Step] = []
    for id_ in ids:
        try:
            (commit,) = git.objects(id_)
        except WorkbenchError:
            continue
        if commit is None:
            continue
        head, _, message = commit.data.partition(b"\n\n")
        text = message.decode("utf-8", "replace")
        try:
            summary = trailers.parse(text, commit=id_, authored="", where=id_)
        except WorkbenchError:
            continue
        ref = (pending_ref if summary.answer is Answer.PENDING else attempt_ref)(summary.number)
        parents = tuple(parent.decode() for parent in _PARENT.findall(head))
        steps.append(_Step(id_, ref, parents))
    return steps


def _lost_heads(reader: SessionReader) -> list[Update]:
    """`main` and `best`, where they are gone and versions were accepted."""
    there = reader.git.ref_ids(MAIN, BEST)
    if len(there) == len((MAIN, BEST)):
        return []
    overview = reader.overview()
    by_number = {version.number: version for version in overview.versions}
    main = _main(overview, reader)
    best = _best([v for v in overview.versions if v.answer is Answer.ACCEPTED]) or main
    wanted = {MAIN: main, BEST: best}
    return [
        Update(name, by_number[number].commit, NO_REF)
        for name, number in wanted.items()
        if number in by_number and name not in there
    ]


def _main(overview: Overview, reader: SessionReader) -> int | None:
    """Where `main` was last: at the newest accepted version, unless a move has left that."""
    accepted = [
        v.number
        for v in overview.versions
        if v.answer is Answer.ACCEPTED or v.number in overview.undone
    ]
    moves = reader.moves()
    newest = max(accepted, default=None)
    return moves[-1].to if any(move.before == newest for move in moves) else newest


def _best(kept: Sequence[Summary]) -> int | None:
    """The fastest, by times of one kind; None where none was timed."""
    times = [(v.time, v.number) for v in kept if v.time is not None]
    kinds = {time.kind for time, _ in times}
    kind = Kind.MEASURED if Kind.MEASURED in kinds else Kind.MODELED
    alike = [(time.microseconds, number) for time, number in times if time.kind is kind]
    return min(alike)[1] if alike else None
