"""What a person means by a session or a version on the command line."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from workbench.errors import WorkbenchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from workbench.engine.client import SessionClient
    from workbench.engine.view import Snapshot

Line = TypeVar("Line")
_VERSION = re.compile(r"v?\d{1,9}|best|main|pending")


def client_of(session: str, sessions: Path | None) -> "SessionClient":
    """A client on the named session, or on the newest. Raises WorkbenchError when there is none."""
    from workbench.engine.client import SessionClient
    from workbench.engine.sessions import find_session, sessions_folder

    return SessionClient(find_session(session, sessions_folder(sessions)))


def one_session(first: str, option: str) -> str:
    """The session that a command was given in place or by `--session`; empty for the newest."""
    if first and option and first != option:
        raise WorkbenchError(
            f"two sessions are named: {first} and {option}",
            where="--session",
            todo="name one of them",
        )
    return first or option


def words_apart(
    words: "Sequence[str]", option: str, sessions: Path | None, *, versions: int
) -> tuple[str, list[str]]:
    """Session (empty for the newest) and versions, of words among which a session may stand first.

    At most `versions` words name versions. One word too many, or a first one that can be no
    version and is a session, is the session's name.
    """
    from workbench.engine.sessions import sessions_folder
    from workbench.session.names import session_names

    rest = [word for word in words if word]
    if not rest:
        return option, rest
    first = rest[0]
    is_path = "/" in first or first.startswith(".")
    is_session = not _VERSION.fullmatch(first) and (
        is_path or first in session_names(sessions_folder(sessions))
    )
    if len(rest) > versions or is_session:
        return one_session(first, option), rest[1:]
    return option, rest


def session_and_word(words: tuple[str, str], option: str) -> tuple[str, str]:
    """Session (empty for the newest) and what the command is about: a word alone is that."""
    first, second = words
    return (one_session(first, option), second) if second else (option, first)


def kept(lines: "Sequence[Line]", file: Path, writer: str) -> "Sequence[Line]":
    """What was read of a kept file. Raises WorkbenchError where no line of it is one of `writer`'s,
    so that an empty table is never taken for a result."""
    if lines:
        return lines
    raise WorkbenchError(
        "the file holds nothing that was kept", where=str(file), todo=f"name a file of `{writer}`"
    )


def version_number(word: str, snapshot: "Snapshot") -> int:
    """The number that `v3`, `3`, `best`, `main` or `pending` means.

    Raises WorkbenchError for any other word, and for a version that the session does not have.
    """
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
        todo += "; a session's name stands before the version"
    last = f"v0 to v{max(known)}" if known else "no version yet"
    if snapshot.unwritten and not known:
        from workbench.engine.view import unwritten_lines

        todo = " ".join(unwritten_lines(snapshot))
    raise WorkbenchError(
        f"{word!r} is not a version of session {snapshot.name}",
        where=snapshot.path,
        todo=f"it has {last}; {todo}",
    )
