"""What a version says of itself whose files, or whose commit, damage took before it was exported.

A bundle must be whole for git. So a version that lost files travels without them and names them in
its message, and where a commit itself is lost a stand-in without files takes its place.
"""

import re

from workbench.session.layout import FILES
from workbench.session.trailers import row_of

_LOST = "Lost"
_COMMIT = "commit"
_ROW = re.compile(rf"^{_LOST}: .*\n?", re.MULTILINE)

LOST_BEFORE = "its commit was lost before the session was exported"
"""Why a version of an imported session cannot be read, in a clause."""


def stand_in(number: int, was: str) -> str:
    """The message for version `number`, whose commit `was` (40 hex digits) cannot be read."""
    says = "Its commit could not be read when the session was exported; nothing is known of it."
    rows = f"Transition: {number}\n{_LOST}: {_COMMIT}\nWas: {was}"
    return f"v{number} is lost\n\n{says}\n\n{rows}\n"


def is_stand_in(message: str) -> bool:
    """Whether a commit only stands for one that is lost."""
    return row_of(message, _LOST) == _COMMIT


def lost_files(message: str) -> frozenset[str]:
    """Names of the files that the version does not have any more."""
    named = row_of(message, _LOST).split(", ")
    return frozenset(FILES) if named == [_COMMIT] else frozenset(named) & frozenset(FILES)


def without(message: str, files: frozenset[str]) -> str:
    """The message of a version that has lost these files."""
    told = ", ".join(name for name in FILES if name in files)
    head, blank, rows = message.rstrip("\n").rpartition("\n\n")
    return f"{head}{blank}{_ROW.sub('', rows).rstrip()}\n{_LOST}: {told}\n"
