"""When a run ends although its limits would let it go on: nothing more is worth trying."""

from functools import cached_property

from msgspec import structs

from workbench.engine.history import History
from workbench.measure.records import Kind
from workbench.search.ladder import SearchSpec, load_ladder
from workbench.search.stops import near_limit, plateau_reached, round_gain
from workbench.session.records import Answer, Transition


class Stopping:
    """Decides when a run stops, by the thresholds of the ladder's file and the user's own."""

    def __init__(self, first: int) -> None:
        """`first` is the number of the run's first step: earlier ones count for no rest, so that
        whoever resumes a run that came to rest gets new tries."""
        self._first = first

    def says(self, history: History) -> str:
        """Why it ends, as a clause; empty while something is worth trying.

        Raises WorkbenchError for a ladder that cannot be read.
        """
        if near := self.near(history):
            return near
        tried = [t for t in history.transitions if t.number >= self._first and t.parent is not None]
        return plateau_reached([gain(t) for t in tried], self._twice)

    def near(self, history: History) -> str:
        """Why the best has nothing left to gain; empty while it may."""
        near = near_limit(share_of_limit(history.best), self._spec)
        return near if near and not behind(history) else ""

    @cached_property
    def _spec(self) -> SearchSpec:
        return load_ladder().search

    @cached_property
    def _twice(self) -> SearchSpec:
        """A first rest ends the choice between algorithms (`search.phase`), not the run: tuning
        gets as many rounds of its own (ours)."""
        rounds = self._spec.plateau_rounds
        return structs.replace(
            self._spec, plateau_rounds=structs.replace(rounds, value=2 * rounds.value)
        )


def gain(step: Transition) -> float:
    """What a step made the accepted kernel faster by, as a ratio; 1 where it did not."""
    accepted = step.decision.answer is Answer.ACCEPTED
    speed = step.gate.speed
    return round_gain(accepted=accepted, speed=None if speed is None else speed.ratio)


def behind(history: History) -> bool:
    """Whether PyTorch, eager or compiled, was timed faster than the best: a bar that was cleared on
    this GPU is not a limit (ours)."""
    first, best = history.transitions[0].gate.baselines, history.best
    bar = None if first is None else first.best
    if bar is None or best is None or best.gate.time is None:
        return False
    return best.gate.time.kind is bar.kind and best.gate.time.microseconds > bar.microseconds


def share_of_limit(best: Transition | None) -> float | None:
    """How much of the GPU's limit the best reaches; None where its time was not measured."""
    if best is None or best.gate.time is None or best.gate.limit is None:
        return None
    measured = best.gate.time.kind is Kind.MEASURED
    return best.gate.limit.share(best.gate.time) if measured else None
