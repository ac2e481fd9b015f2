"""Acceptance in advance: a card's later steps are accepted until a gate fails."""

from msgspec import Struct

from workbench.engine.view import Snapshot
from workbench.session.records import Answer
from workbench.tui.scene import ALIVE, version_of


class Scope(Struct, frozen=True, kw_only=True):
    """Steps of `card` after version `since`, which the user accepted in advance."""

    card: str
    since: int

    @property
    def reason(self) -> str:
        """The reason that git records with every step accepted this way."""
        return f"every step of {self.card} until a gate fails, as said at v{self.since}"


def ended(scope: Scope, snapshot: Snapshot) -> str:
    """Why the scope no longer applies; empty while it does."""
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
    """The waiting version that the scope accepts; None when there is none."""
    waiting = version_of(snapshot, snapshot.pending)
    if waiting is None or waiting.number <= scope.since or waiting.card != scope.card:
        return None
    return waiting.number
