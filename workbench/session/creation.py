"""Creates a session's folder: built under a hidden name, then renamed in one move."""

import errno
from pathlib import Path

from workbench.errors import WorkbenchError
from workbench.session import toml
from workbench.session.journal import sync_folder
from workbench.session.layout import START, START_FILES
from workbench.session.objects import blob, tree
from workbench.session.plumbing import NO_REF, Plumbing, Update, create_repository
from workbench.session.records import SessionSettings


def lay_out(folder: Path, settings: SessionSettings, problem: str, sidecar: str) -> None:
    """Create a session's repository with its start and no kernel yet, in an unused folder."""
    write_start(skeleton(folder), settings, problem, sidecar)


def skeleton(folder: Path) -> Plumbing:
    """Create an empty repository with the engine's own folder in it."""
    create_repository(folder)
    info = folder / ".git" / "info"
    info.mkdir(exist_ok=True)
    # A person's own git settings must not convert line ends or run filters over a kernel.
    (info / "attributes").write_text("* -text -filter -ident -working-tree-encoding\n")
    (folder / ".git" / "workbench" / "scratch").mkdir(parents=True)
    return Plumbing(folder)


def write_start(
    git: Plumbing, settings: SessionSettings, problem: str, sidecar: str, old: str = NO_REF
) -> None:
    """Store the files that every version of the session carries. `old`: the tree they replace."""
    texts = (toml.encode_settings(settings), utf8(problem), utf8(sidecar))
    blobs = {name: blob(data) for name, data in zip(START_FILES, texts, strict=True)}
    root = tree({name: item.id for name, item in blobs.items()})
    git.store([*blobs.values(), root])
    git.move([Update(START, root.id, old)], "session started")


class NameTaken(WorkbenchError):
    """The name for a new session is already in use."""


def settle(draft: Path, folder: Path) -> None:
    """Rename a finished draft to its session's name. Raises NameTaken if the name is in use."""
    if folder.exists():
        raise taken(folder)
    try:
        draft.rename(folder)
    except OSError as fault:
        if fault.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise taken(folder) from fault
        raise
    sync_folder(folder.parent)


def taken(folder: Path) -> NameTaken:
    """The error for a name that is in use."""
    return NameTaken(
        "there is already something with the new session's name",
        where=str(folder),
        todo="choose another with `--session NAME`, or `workbench resume` the session that has it",
    )


def utf8(text: str) -> bytes:
    """The bytes of a text; half a surrogate pair, which a model may write, does not fail."""
    return text.encode("utf-8", "surrogatepass")
