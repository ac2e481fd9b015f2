"""A wider yes: this card's steps are accepted until a gate fails, while this screen is open."""

from msgspec import Struct

from workbench.engine.view import Snapshot
from workbench.session.records import Answer
from workbench.tui.scene import ALIVE, version_of


class Scope(Struct, frozen=True, kw_only=True):
    """What a person agreed to, in a second step, beside accepting version `since`."""

    card: str
    since: int

    @property
    def reason(self) -> str:
        """Goes into git with every answer that it gives."""
        return f"every step of {self.card} until a gate fails, as said at v{self.since}"


def ended(scope: Scope, snapshot: Snapshot) -> str:
    """Why it holds no longer; empty while it does."""
    if snapshot.state not in ALIVE:
        return f"the session is {snapshot.state}"
    for version in reversed(snapshot.versions):
        if version.number <= scope.since:
            break
        if version.answer is Answer.REJECTED:
            return f"v{version.number} failed at {version.stage}"
        if version.answer is Answer.VETOED:
            return f"v{version.number} was vetoed"
    return ""


def covered(scope: Scope, snapshot: Snapshot) -> int | None:
    """The waiting version that it answers for, if any."""
    waiting = version_of(snapshot, snapshot.pending)
    if waiting is None or waiting.number <= scope.since or waiting.card != scope.card:
        return None
    return waiting.number
