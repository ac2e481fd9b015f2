"""The open candidates of a run with a beam, written down so that a killed run resumes with them.

`git show refs/session/queue:queue.json` prints them. No version's commit has them, and no bundle:
what became of a candidate is its transition.
"""

import contextlib
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from workbench.gate.records import GateReport
from workbench.session.complaints import DamagedError
from workbench.session.objects import blob, tree
from workbench.session.plumbing import NO_REF, Plumbing, Update
from workbench.skills.records import Plan

QUEUE = "refs/session/queue"
_FILE = "queue.json"


class Seen(Struct, frozen=True, kw_only=True):
    """What few pairs found of a candidate, so that a run which is killed asks them once."""

    report: GateReport
    wall_seconds: float
    paid: bool = False
    """Whether its GPU-seconds are in a record already."""


class Queued(Struct, frozen=True, kw_only=True):
    """A candidate before its turn."""

    parent: int
    """Number of the kernel that it was made from."""
    plan: Plan
    source: str
    action: str = ""
    """`promote`, `hold` or `prune`, once it was looked at."""
    reason: str = ""
    score: float = 0.0
    first: bool = False
    """Whether its turn had come."""
    seen: Seen | None = None
    """None until it was looked at, and where that took no GPU."""


def keep(git: Plumbing, queue: Sequence[Queued]) -> None:
    """Write the queue in place of the one before it; on disk when this returns.

    Raises WorkbenchError when the disk refuses; then nothing has changed.
    """
    made = blob(msgspec.json.format(msgspec.json.encode(tuple(map(_readable, queue))), indent=1))
    root = tree({_FILE: made.id})
    was = git.ids(QUEUE).get(QUEUE, NO_REF)
    if root.id != was:
        git.store([made, root])
        git.move([Update(QUEUE, root.id, was)], "queue")


def _readable(one: Queued) -> Queued:
    """Without what was seen of it where JSON does not hold that: an endless number, say."""
    try:
        msgspec.json.decode(msgspec.json.encode(one), type=Queued)
    except msgspec.DecodeError:
        return structs.replace(one, seen=None)
    return one


def read(git: Plumbing) -> tuple[Queued, ...]:
    """The queue as it was kept; empty where there is none.

    Raises DamagedError for one that this program would not have written.
    """
    if QUEUE not in git.ids(QUEUE):
        return ()
    ids = git.files(QUEUE)
    if list(ids) != [_FILE]:
        raise DamagedError(git.folder, f"the files of {QUEUE} are {', '.join(sorted(ids))}")
    (data,) = git.blobs([ids[_FILE]])
    with contextlib.suppress(msgspec.DecodeError):
        return msgspec.json.decode(data, type=tuple[Queued, ...])
    try:
        # What another version of the workbench saw of them is asked again.
        rows = msgspec.json.decode(data, type=tuple[dict[str, Any], ...])
        return msgspec.convert([{**row, "seen": None} for row in rows], tuple[Queued, ...])
    except msgspec.DecodeError as fault:
        raise DamagedError(git.folder, f"{QUEUE} cannot be read: {fault}") from fault
