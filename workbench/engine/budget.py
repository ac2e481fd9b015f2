"""How much of a run's limits is left, and which limit ends it."""

from collections.abc import Callable, Sequence
from statistics import median, quantiles

from workbench.engine.view import in_steps
from workbench.session.records import Answer, Budget, Cost, Transition

PRICED = 15
"""Newest steps that the price of the next is learned from; ours, as the ladder's `price_memory`."""
_MOST_KEPT = 0.5
_NOTHING = Cost()
_FEWEST = 3
"""Steps of which a middle says anything, although one hung until its time limit (ours)."""


def exhausted(budget: Budget, steps: int, spent: Cost) -> str:
    """Which limit is reached, as a sentence; empty while there is room.

    `steps` counts gated candidates, the seed not among them. Wall time is the engine's working
    time over all runs of the session: time spent waiting for a person does not count.
    """
    if budget.steps is not None and steps >= budget.steps:
        return f"{steps} of {budget.steps} steps are done"
    if budget.usd is not None and spent.usd >= budget.usd:
        return f"${spent.usd:.2f} of ${budget.usd:.2f} are spent"
    for unit, limit, used, _ in _limits(budget, spent, _NOTHING):
        # Where no GPU is used, a limit of its seconds ends nothing, however small it is.
        if limit is not None and used >= limit and used > 0:
            return f"{used:.0f} of {_words(limit)} {unit} are spent"
    return ""


def _words(limit: float) -> str:
    """`60`, `0.001`, `1000000000`."""
    return f"{limit:g}" if limit < _MANY else f"{limit:.0f}"


def price(steps: Sequence[Transition]) -> Cost:
    """What the next step takes, by the newest steps so far; nothing while there are too few.

    The median of those that the gate refused, since most steps are; where too few were, the lower
    quartile of all (ours). An accepted step is timed to its end and confirmed: priced like one, a
    run would stop although there is room for what mostly comes next. A step that begins may take
    longer than its price, and the limit then ends the run after it.
    """
    last = steps[-PRICED:]
    refused = [step.cost for step in last if step.decision.answer is Answer.REJECTED]
    costs = [step.cost for step in last]
    typical: Callable[[Sequence[float]], float] = _lower_quartile
    if len(refused) >= _FEWEST:
        costs, typical = refused, median
    if len(costs) < _FEWEST:
        return Cost()
    return Cost(
        gpu_seconds=typical([cost.gpu_seconds for cost in costs]),
        wall_seconds=typical([cost.wall_seconds for cost in costs]),
    )


def _lower_quartile(seconds: Sequence[float]) -> float:
    return quantiles(seconds, n=4, method="inclusive")[0]


def reserve(budget: Budget, look: Cost | None) -> Cost:
    """What is kept back of the limits for the last look at what a run ends with.

    Nothing where there is none, and where it would take more than half of a limit (ours): so small
    a budget is for steps, and the run says that the look was left out.
    """
    if look is None:
        return Cost()
    for _, limit, _, takes in _limits(budget, Cost(), look):
        if limit is not None and takes > _MOST_KEPT * limit:
            return Cost()
    return look


def too_little(budget: Budget, spent: Cost, step: Cost, kept: Cost = _NOTHING) -> str:
    """Which limit leaves less than a step takes beside what is kept back for the last look, as a
    sentence; empty while there is room."""
    for (unit, limit, used, takes), (_, _, _, back) in zip(
        _limits(budget, spent, step), _limits(budget, spent, kept), strict=True
    ):
        if limit is not None and used + takes + back > limit:
            what = "a step and the last look" if back else "a step"
            return (
                f"{max(0.0, limit - used):.1f} of {_words(limit)} {unit} are left, less than {what}"
            )
    return ""


def no_look(budget: Budget, spent: Cost, look: Cost) -> str:
    """Which limit leaves less than the last look takes, as a clause; empty while there is room."""
    for unit, limit, used, takes in _limits(budget, spent, look):
        if limit is not None and used + takes > limit:
            left_ = max(0.0, limit - used)
            return f"it takes about {takes:.0f} {unit}, and {left_:.1f} of {_words(limit)} are left"
    return ""


def room(budget: Budget, steps: int, spent: Cost, step: Cost, kept: Cost = _NOTHING) -> int:
    """Steps that every limit has room for, one after another, beside what is kept back; a large
    number without limits."""
    most = _MANY if budget.steps is None else budget.steps - steps
    for _, limit, used, takes in _limits(budget, spent.plus(kept), step):
        if limit is not None:
            most = min(most, int((limit - used) / takes) if takes > 0 else most)
    return max(0, most)


_MANY = 1_000_000


def _limits(
    budget: Budget, spent: Cost, step: Cost
) -> tuple[tuple[str, float | None, float, float], ...]:
    """Of each limit in seconds: its unit, itself, what is used of it and what a step takes."""
    return (
        ("GPU-seconds", budget.gpu_seconds, spent.gpu_seconds, step.gpu_seconds),
        ("seconds", budget.wall_seconds, spent.wall_seconds, step.wall_seconds),
    )


NO_LIMIT = "no limit"


def left(budget: Budget, steps: int, spent: Cost) -> str:
    """What is left of every limit that was set: `5 steps, 41 s`; `no limit` without any."""
    parts = []
    if budget.steps is not None:
        parts.append(in_steps(max(0, budget.steps - steps)))
    if budget.usd is not None:
        parts.append(f"${max(0.0, budget.usd - spent.usd):.2f}")
    if budget.gpu_seconds is not None:
        parts.append(f"{max(0.0, budget.gpu_seconds - spent.gpu_seconds):.0f} GPU-s")
    if budget.wall_seconds is not None:
        parts.append(f"{max(0.0, budget.wall_seconds - spent.wall_seconds):.0f} s")
    return ", ".join(parts) if parts else NO_LIMIT
