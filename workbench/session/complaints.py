"""What git complains of, as something that a person can act on."""

import re
import signal
from pathlib import Path

from workbench.errors import WorkbenchError
from workbench.session.names import spoken

_FULL = re.compile(
    r"No space left|Out of diskspace|Disk quota exceeded|File too large"
    rf"|died of signal {int(signal.SIGXFSZ)}\b",
    re.IGNORECASE,
)
_LIMITED = re.compile(rf"File too large|died of signal {int(signal.SIGXFSZ)}\b", re.IGNORECASE)
_KILLED = re.compile(r"died of signal \d+", re.IGNORECASE)
_CLOSED = re.compile(
    r"Read-only file system|Permission denied|insufficient permission", re.IGNORECASE
)
_HELD = re.compile(r"Unable to create '.*\.lock': File exists", re.IGNORECASE)
_MOVED = re.compile(r"but expected|reference already exists|cannot lock ref", re.IGNORECASE)
_HEADLESS = re.compile(r"not a git repository", re.IGNORECASE)
_SETTINGS = re.compile(r"bad config")
_PACKED = re.compile(r"line in \S*packed-refs")


class DamagedError(WorkbenchError):
    """A repository that git or we cannot read."""

    def __init__(self, folder: Path, detail: str, todo: str = "") -> None:
        what = f"the session's history is damaged: {detail}"
        todo = todo or (
            f"`workbench export {spoken(folder)} FILE` saves all that can be read, for `import`;"
            " `git fsck` there names what is damaged"
        )
        if not folder.exists():
            what = "the session's folder is gone: somebody moved or deleted it"
            todo = "if it was moved, `workbench resume FOLDER` goes on where it is now"
        super().__init__(what, where=str(folder), todo=todo)
        self.detail = detail


def explained(command: str, complaint: str, folder: Path) -> WorkbenchError:
    """Git's complaint as something a person can act on."""
    lines = [line for line in complaint.splitlines() if not line.startswith(("hint:", "warning:"))]
    last = "; ".join(lines[-2:]) or "no reason given"
    where = f"{folder} (git {command}: {last})"
    if _FULL.search(complaint):
        todo = "free some space"
        if _LIMITED.search(complaint):
            todo += ", or let files grow larger (`ulimit -f`)"
        return WorkbenchError(
            "the disk is full; the session was not changed", where=where, todo=todo
        )
    if _KILLED.search(complaint):
        return WorkbenchError(
            "a git command was killed; the session was not changed",
            where=where,
            todo="try again; `dmesg` tells whether memory was short",
        )
    if _CLOSED.search(complaint):
        return WorkbenchError(
            "the session's folder cannot be written; it was not changed",
            where=where,
            todo="check who owns the folder and whether its disk is mounted read-only",
        )
    if _HELD.search(complaint):
        return WorkbenchError(
            "another git command is writing to the session; it was not changed",
            where=where,
            todo="try again when it has ended",
        )
    if _MOVED.search(complaint):
        return WorkbenchError(
            "the session changed in the meantime; nothing was written",
            where=where,
            todo="try again",
        )
    return DamagedError(folder, f"git {command}: {last}", _remedy(complaint, folder))


def lost_index(folder: Path) -> str:
    """What makes the index of a pack again that lost it; empty where none did."""
    for pack in sorted((folder / ".git" / "objects" / "pack").glob("*.pack")):
        if not pack.with_suffix(".idx").exists():
            return f"`git index-pack {pack.relative_to(folder)}` there finds its objects again"
    return ""


def _remedy(complaint: str, folder: Path) -> str:
    """What to do where one small file of the repository is at fault; empty where it is not."""
    if _HEADLESS.search(complaint) and folder.exists():
        return "`echo 'ref: refs/heads/main' > .git/HEAD` there, if that file is gone or damaged"
    if _SETTINGS.search(complaint):
        return "move .git/config there out of the way: the workbench needs nothing in it"
    if _PACKED.search(complaint):
        return "cut the damaged line out of .git/packed-refs there, then resume the session"
    return ""
