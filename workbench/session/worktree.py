"""The files a person sees in a session's folder: always `main`'s, never at the cost of their edits.

Git's own checkout would run filters and hooks, and a kill in its middle would leave its lock
behind. Here each file is replaced whole by a rename, then the index, and last the note of what is
shown; whatever the moment of death, each file is the one that was shown before or the one that
should be, so a later call can distinguish a person's edit from a half-done update and finishes the
latter.
"""

import os
import stat
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from struct import pack
from typing import NamedTuple

from msgspec import Struct

from workbench.session.layout import FILES, on_main
from workbench.session.objects import FILE_MODE, blob
from workbench.session.plumbing import FILE_CAP, Plumbing

_PLAIN = int(FILE_MODE, 8)
_WORD = 0xFFFFFFFF


class Staged(NamedTuple):
    """A file as the index has it."""

    mode: int
    id: str


class WorktreeState(Struct, frozen=True, kw_only=True):
    """How the files in the folder stand to `main` after an update."""

    written: tuple[str, ...] = ()
    edited: tuple[str, ...] = ()
    """Changed by somebody else, and therefore left as they are."""
    says: str = ""
    """Why nothing was done or something was left; empty when all is `main`'s."""


def in_folder(folder: Path, lost: Collection[str]) -> dict[str, bytes]:
    """Those of the blobs of which a file in the folder has the very bytes, by id."""
    found: dict[str, bytes] = {}
    for name in FILES:
        path = folder / name
        with suppress(OSError):
            if path.is_symlink() or not path.is_file() or path.stat().st_size > FILE_CAP:
                continue
            one = blob(path.read_bytes())
            if one.id in lost:
                found[one.id] = one.data
    return found


def update_worktree(
    git: Plumbing, wanted: Mapping[str, str], state: Path, shown: Mapping[str, str] | None = None
) -> WorktreeState:
    """Make the folder's files those of `wanted` (name to blob id), and the index with them.

    Leaves everything alone while the person is on another branch, in a bisect or in a merge, and a
    file alone that the person has edited or staged: that is neither wanted nor what was `shown`, by
    default what this function showed last. `state` is the engine's folder beside git's.
    Raises OSError where a folder cannot be written, ValueError where the index holds a path that no
    tree may hold, and WorkbenchError where git cannot be read.
    """
    if not on_main(git.git_dir):
        return WorktreeState(says="the folder shows something else than `main`; left as it is")
    if (git.git_dir / "index.lock").exists():
        return WorktreeState(says="a git command holds the index; the files were left as they are")
    index = _read_index(git)
    if index is None:
        return WorktreeState(says="a merge is going on in the folder; left as it is")
    noted = _read_shown(state / "shown")
    shown = noted if shown is None else shown
    here = {name: _blob_id(git.folder / name) for name in wanted}
    staged = {name: index[name].id if name in index else None for name in wanted}
    lawful = {name: {None, id_, shown.get(name)} for name, id_ in wanted.items()}
    edited = tuple(n for n in wanted if not {here[n], staged[n]} <= lawful[n])
    ours = {name: id_ for name, id_ in wanted.items() if name not in edited}
    stale = [name for name, id_ in ours.items() if here[name] != id_]
    for name, data in zip(stale, git.blobs([ours[name] for name in stale]), strict=True):
        _replace(git.folder / name, data, state / "scratch")
    # An edited file that is not staged is shown by `git diff` against what `main` now has.
    fresh = ours | {n: wanted[n] for n in edited if staged[n] in lawful[n]}
    if stale or any(staged[name] != id_ for name, id_ in fresh.items()):
        entries = index | {name: Staged(_PLAIN, id_) for name, id_ in fresh.items()}
        _write_index(git, entries, set(ours), state / "scratch")
    if noted != wanted:
        _replace(state / "shown", _spell_shown(wanted), state / "scratch")
    says = f"edited by hand, left as they are: {', '.join(edited)}" if edited else ""
    return WorktreeState(written=tuple(stale), edited=edited, says=says)


def _read_shown(path: Path) -> dict[str, str]:
    """What the folder was last made to show; empty when that is not known."""
    try:
        rows = [line.partition(" ") for line in path.read_text().splitlines()]
    except (FileNotFoundError, UnicodeDecodeError):
        return {}
    return {name: id_ for id_, _, name in rows}


def _spell_shown(files: Mapping[str, str]) -> bytes:
    return "".join(f"{id_} {name}\n" for name, id_ in files.items()).encode()


def _read_index(git: Plumbing) -> dict[str, Staged] | None:
    """What is checked out or staged; None while entries are in conflict."""
    if not (git.git_dir / "index").exists():
        return {}
    entries: dict[str, Staged] = {}
    for row in git.run("ls-files", "--stage", "-z", "--full-name").decode().split("\0")[:-1]:
        facts, _, name = row.partition("\t")
        mode, id_, stage = facts.split(" ")
        if stage != "0":
            return None
        entries[name] = Staged(int(mode, 8), id_)
    return entries


def _blob_id(path: Path) -> str | None:
    """Git's id of the file's bytes; None when nothing is there, empty when it is not a plain
    file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError:
        return ""
    with os.fdopen(fd, "rb") as file:
        facts = os.fstat(fd)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > FILE_CAP:
            return ""
        return blob(file.read()).id


def _replace(path: Path, data: bytes, scratch: Path) -> None:
    """Put a whole file in place of what has the name; a symlink is replaced, not followed."""
    fresh = scratch / f"{path.name}.{os.getpid()}"
    try:
        with fresh.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    finally:
        with suppress(FileNotFoundError):
            fresh.unlink()


def _write_index(
    git: Plumbing, entries: Mapping[str, Staged], fresh: set[str], scratch: Path
) -> None:
    """Replace the index; `fresh` names files on disk whose times git may trust."""
    from git.index.fun import write_cache
    from git.index.typ import IndexEntry

    rows = []
    for name, staged in sorted(entries.items(), key=lambda row: row[0].encode()):
        row = (staged.mode, bytes.fromhex(staged.id), 0, name)
        facts = _facts(git.folder / name) if name in fresh else None
        rows.append(IndexEntry(row if facts is None else (*row, *facts)))
    path = scratch / f"index.{os.getpid()}"
    with path.open("wb") as stream:
        write_cache(rows, stream)
    path.replace(git.git_dir / "index")


def _facts(path: Path) -> tuple[bytes, bytes, int, int, int, int, int]:
    """What the index keeps of a file, to see without reading it that it did not change."""
    facts = path.lstat()
    return (
        _times(facts.st_ctime_ns),
        _times(facts.st_mtime_ns),
        facts.st_dev & _WORD,
        facts.st_ino & _WORD,
        facts.st_uid & _WORD,
        facts.st_gid & _WORD,
        facts.st_size & _WORD,
    )


def _times(nanoseconds: int) -> bytes:
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return pack(">LL", seconds & _WORD, rest)
