"""The funnel: how many versions reached each stage of the gate, and how many were accepted."""

from collections import Counter

from msgspec import Struct

from workbench.engine.once import once
from workbench.engine.view import Snapshot, Version
from workbench.gate.records import Stage
from workbench.session.records import Answer

_FROM = {stage: tuple(Stage)[place:] for place, stage in enumerate(Stage)}
"""Each stage with those after it."""


class Rung(Struct, frozen=True, kw_only=True):
    """One step of the funnel."""

    name: str
    count: int
    """Versions that came this far."""
    now: bool = False
    """Whether the step under way is here."""
    seconds: float | None = None
    """Seconds that the current step took here."""


def funnel(snapshot: Snapshot) -> tuple[Rung, ...]:
    """Stages in order with the versions that reached each, then those that were accepted."""
    reached, accepted = _counted(snapshot.versions)
    strip = {known.stage: known for known in snapshot.strip}
    rungs = tuple(
        Rung(
            name=stage,
            count=reached[stage],
            now=stage in strip and strip[stage].running,
            seconds=strip[stage].seconds or None if stage in strip else None,
        )
        for stage in Stage
    )
    waiting = snapshot.pending is not None
    return (*rungs, Rung(name="accepted", count=accepted, now=waiting))


@once
def _counted(versions: tuple[Version, ...]) -> tuple[dict[Stage, int], int]:
    """How many came to each stage, and how many were accepted."""
    ended = Counter(version.stage for version in versions)
    reached = {stage: sum(ended[later] for later in _FROM[stage]) for stage in Stage}
    return reached, sum(version.answer is Answer.ACCEPTED for version in versions)
