"""A session as one file, a git bundle: going out whole, and coming in as data from a stranger.

Coming in, the objects go into a new repository of our own making and are checked by git, only the
references that a session has are made, every version is read by `check_session`, and only then does
the session get its name. Nothing of it is run, and git's own checkout never sees it.
"""

import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from workbench.errors import WorkbenchError
from workbench.session import toml
from workbench.session.check import check_session
from workbench.session.code import CODE
from workbench.session.complaints import DamagedError, lost_index
from workbench.session.creation import settle, skeleton, taken, write_start
from workbench.session.journal import sync_folder
from workbench.session.layout import BEST, MAIN, START_FILES, numbered, on_main
from workbench.session.mending import found_again, mended
from workbench.session.moves import MOVES
from workbench.session.names import check_name
from workbench.session.own_refs import is_own
from workbench.session.plumbing import NO_REF, Plumbing, Update, check_git
from workbench.session.reader import SessionReader
from workbench.session.rescue import rescue
from workbench.session.spends import SPENDS
from workbench.session.store import SessionStore

BUNDLE_CAP = 1 << 30
"""Bytes of a bundle that is read; ours. A thousand transitions take about 10 MiB."""

VERSIONS_CAP = 100_000
"""Versions in a bundle that is read; ours."""

_ABANDONED = 24 * 3600.0
"""Seconds after which an import is over; ours. A GiB takes minutes."""

_LINE_CAP = 4096
_SIGNATURES = (b"# v2 git bundle\n", b"# v3 git bundle\n")
_HEAD = re.compile(rb"([0-9a-f]{40}) (\S+)\n")
_HARMLESS = (b"@object-format=sha1\n",)


def export_bundle(store: SessionReader, file: Path) -> tuple[str, ...]:
    """Write the whole lineage to a new file, atomically; of a damaged one what can be read.

    Returns, for each reference that cannot be read whole, what of it is not in the bundle. Raises
    WorkbenchError when the file exists, cannot be written, or the session has no version yet.
    """
    if file.exists() or file.is_symlink():
        raise WorkbenchError(
            "there is already a file of that name",
            where=str(file),
            todo="choose another name, or move the file away",
        )
    refs, left_out = _travellers(store)
    draft = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    try:
        draft.touch(exist_ok=False)
        left_out |= _bundle_readable(store, refs, draft)
        draft.rename(file)
        sync_folder(file.resolve().parent)
    except DamagedError:
        raise
    except WorkbenchError as fault:
        # Git read the session and wrote the bundle: what it could not do concerns that file.
        raise WorkbenchError(
            fault.what, where=str(file), todo=f"{fault.todo}, or name a file elsewhere"
        ) from fault
    except OSError as fault:
        raise WorkbenchError(
            f"the bundle cannot be written: {fault.strerror}",
            where=str(file),
            todo="name a file in a folder that you can write to",
        ) from fault
    finally:
        draft.unlink(missing_ok=True)
        # A git that was killed leaves the lock under which it writes.
        draft.with_name(f"{draft.name}.lock").unlink(missing_ok=True)
    return tuple(f"{name}: {says}" for name, says in left_out.items())


def _bundle_readable(store: SessionReader, refs: dict[str, str], draft: Path) -> dict[str, str]:
    """Write these references with all that they lead to; what of it is lost, and why.

    Where anything is, the bundle is made from a copy of what can be read.
    """
    # With HEAD in it, plain `git clone` checks out `main`; a person's own branch stays here.
    shows_main = on_main(store.git.git_dir)
    with suppress(DamagedError):
        if all(refs.values()):
            _bundle(store.git, refs, draft, head=shows_main)
            return {}
    with tempfile.TemporaryDirectory(prefix="workbench-rescue-") as folder:
        into = skeleton(Path(folder) / "rescued")
        lost = rescue(store.git, refs, into)
        saved = into.ref_ids("refs")
        missing = [name for name in START_FILES if name not in _start_files(into)]
        if missing:
            raise _nothing_left(store, missing)
        _bundle(into, saved, draft, head=shows_main)
    return lost


def _travellers(store: SessionReader) -> tuple[dict[str, str], dict[str, str]]:
    """References that a bundle holds, with the ids that they name, and why others of the session
    cannot be in it; of one that is damaged, what git still holds.

    Raises WorkbenchError where there is none, and where `main` is not the session's.
    """
    refs = store.git.ref_ids("refs/attempts", "refs/pending", MOVES, SPENDS, CODE, MAIN, BEST)
    torn = [name for name, id_ in refs.items() if not id_ and is_own(name)]
    refs |= {one.name: one.new for one in found_again(store.git, torn)}
    overview = store.overview()
    left_out = {
        one.ref: one.says for one in overview.unread if not one.damaged or not refs.get(one.ref)
    }
    left_out |= {name: "the file of this reference" for name in torn if not refs[name]}
    refs = {name: id_ for name, id_ in refs.items() if is_own(name) and name not in left_out}
    if not any(map(numbered, (*refs, *left_out))):
        raise WorkbenchError(
            "the session has no version yet, so there is nothing to export",
            where=str(store.folder),
            todo="`workbench resume` gates its seed, which is the first version",
        )
    moved = overview.main is None and MAIN not in {one.ref for one in overview.unread}
    if MAIN in refs and moved:
        raise WorkbenchError(
            "`main` was moved by hand, and a bundle would carry what is not the session's",
            where=str(store.folder),
            todo="keep your commit on a branch of its own and point `main` at a version again",
        )
    return refs, left_out


def _nothing_left(store: SessionReader, missing: list[str]) -> DamagedError:
    says = f"no version of it has {' and '.join(missing)} any more, so nothing can be exported"
    todo = lost_index(store.folder)
    if not todo:
        todo = f"put the {missing[0]} that it was started with into this folder and export again"
    return DamagedError(store.folder, says, todo)


def _start_files(git: Plumbing) -> dict[str, str]:
    """Ids of the files that a session starts with, of `main` or of the first version that has all
    of them; of the last one that was looked at where none has."""
    ids: dict[str, str] = {}
    for id_ in (git.ref_ids(MAIN) | git.ref_ids("refs/attempts", "refs/pending")).values():
        ids = git.files(id_)
        if all(part in ids for part in START_FILES):
            break
    return ids


def _bundle(git: Plumbing, refs: Iterable[str], draft: Path, *, head: bool) -> None:
    names = [*(["HEAD"] if head and MAIN in refs else []), *refs]
    feed = "".join(f"{name}\n" for name in names).encode()
    git.run("bundle", "create", "--quiet", str(draft.resolve()), "--stdin", feed=feed)


@contextmanager
def recorded(place: Path) -> Iterator[SessionReader]:
    """A session's folder or bundle, to be read for as long as the body runs.

    A bundle is opened in a folder of its own and runs nothing. Raises WorkbenchError for what is
    neither.
    """
    if not place.is_file():
        yield SessionReader(place)
        return
    with tempfile.TemporaryDirectory(prefix="workbench-recorded-") as folder:
        yield import_bundle(place, Path(folder))


def import_bundle(file: Path, folder: Path, name: str = "") -> SessionStore:
    """A new session in `folder` from a bundle; `name` empty keeps the name it was exported with.

    WorkbenchError when the file is not a bundle of a session, is damaged, or holds anything that
    this program would not have written; then nothing is left behind.
    """
    check_git()
    draft = folder / f".import.{secrets.token_hex(4)}"
    try:
        if not file.is_file():
            what = "the bundle is a folder" if file.is_dir() else "there is no such file"
            raise WorkbenchError(what, where=str(file), todo="name a file that `export` wrote")
        with file.open("rb") as stream:
            heads = _read_header(stream, file)
            folder.mkdir(parents=True, exist_ok=True)
            _sweep(folder)
            git = skeleton(draft)
            _take_in(git, stream, heads)
        target = folder / check_name(_begin(git, name, file))
        mended(SessionReader(draft))
        faults = check_session(SessionReader(draft))
        if faults:
            raise _refused(file, f"{faults[0].where}: {faults[0].says}")
        if target.exists() or target.is_symlink():
            raise taken(target)
        settle(draft, target)
    except DamagedError as fault:
        raise _refused(file, fault.detail) from fault
    except OSError as fault:
        raise WorkbenchError(
            f"the session cannot be imported: {fault.strerror}",
            where=str(fault.filename or folder),
            todo="name a bundle that `workbench export` wrote, and a folder you can write to",
        ) from fault
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    store = SessionStore.open(target)
    store.restore_worktree()
    return store


def _sweep(folder: Path) -> None:
    """Remove what imports that were killed have left, once it is so old that none still runs."""
    for left in folder.glob(".import.*"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > _ABANDONED:
                shutil.rmtree(left)


def _read_header(stream: BinaryIO, file: Path) -> dict[str, str]:
    """References of the bundle that a session has; leaves the file where the objects begin."""
    if os.fstat(stream.fileno()).st_size > BUNDLE_CAP:
        raise _refused(file, f"it is larger than {BUNDLE_CAP >> 20} MiB")
    if stream.readline(_LINE_CAP) not in _SIGNATURES:
        raise _refused(file, "it is not a git bundle")
    heads: dict[str, str] = {}
    while (line := stream.readline(_LINE_CAP)) != b"\n":
        found = _HEAD.fullmatch(line)
        if found and len(heads) < VERSIONS_CAP:
            heads[found[2].decode("utf-8", "replace")] = found[1].decode()
        elif line.startswith(b"-"):
            raise _refused(file, "it builds on another repository that it does not hold")
        elif line not in _HARMLESS:
            raise _refused(file, "its header is not one of a session's bundle")
    # The program that reads on sees the file's own position, not our buffer's.
    os.lseek(stream.fileno(), stream.tell(), os.SEEK_SET)
    kept = {name: id_ for name, id_ in heads.items() if is_own(name)}
    if not any(map(numbered, kept)):
        raise _refused(file, "it holds no version of a session")
    return kept


def _take_in(git: Plumbing, stream: BinaryIO, heads: dict[str, str]) -> None:
    """Objects and references. Git checks each object, and that none points at one not there."""
    limit = f"--max-input-size={BUNDLE_CAP}"
    git.run("index-pack", "--stdin", "--strict", limit, feed=stream)
    git.move([Update(name, id_, NO_REF) for name, id_ in heads.items()], "imported")


def _begin(git: Plumbing, name: str, file: Path) -> str:
    """Write the start that the newest version carries, under the session's name; return that."""
    ids = _start_files(git)
    missing = [part for part in START_FILES if part not in ids]
    if missing:
        raise _refused(file, f"its versions have no {missing[0]}")
    told, problem, sidecar = git.blobs([ids[part] for part in START_FILES])
    settings = toml.decode_settings(told, f"session.toml in {file}")
    settings = msgspec.structs.replace(settings, name=name or settings.name)
    try:
        write_start(git, settings, problem.decode(), sidecar.decode())
    except UnicodeDecodeError as fault:
        raise _refused(file, "its problem is not UTF-8 text") from fault
    return settings.name


def _refused(file: Path, why: str) -> WorkbenchError:
    return WorkbenchError(
        f"this is not a session's bundle: {why}",
        where=str(file),
        todo="ask whoever made it for `workbench export SESSION FILE`",
    )
