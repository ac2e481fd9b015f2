"""What a person means by a session or a version on the command line."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.errors import WorkbenchError

if TYPE_CHECKING:
    from workbench.engine.client import SessionClient
    from workbench.engine.view import Snapshot


def client_of(session: str, sessions: Path | None) -> "SessionClient":
    """A client on the named session, or on the newest. Raises WorkbenchError when there is none."""
    from workbench.engine.client import SessionClient
    from workbench.engine.sessions import find_session, sessions_folder

    return SessionClient(find_session(session, sessions_folder(sessions)))


def version_number(word: str, snapshot: "Snapshot") -> int:
    """The number that `v3`, `3`, `best` or `main` means. Raises WorkbenchError for another."""
    named = {"best": snapshot.best, "main": snapshot.incumbent, "pending": snapshot.pending}
    number: int | None = None
    if word in named:
        number = named[word]
    elif re.fullmatch(r"v?\d{1,9}", word):
        number = int(word.removeprefix("v"))
    known = {version.number for version in snapshot.versions}
    if number is not None and number in known:
        return number
    todo = "`best` and `main` are names too"
    if word not in named and not re.fullmatch(r"v?\d+", word):
        todo += "; a session is named with `--session NAME`"
    last = f"v0 to v{max(known)}" if known else "no version yet"
    if snapshot.unwritten and not known:
        from workbench.engine.view import unwritten_lines

        todo = " ".join(unwritten_lines(snapshot))
    raise WorkbenchError(
        f"{word!r} is no version of session {snapshot.name}",
        where=snapshot.path,
        todo=f"it has {last}; {todo}",
    )
