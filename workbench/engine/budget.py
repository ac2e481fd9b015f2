"""How much of a run's limits is left, and which limit ends it."""

from workbench.session.records import Budget, Cost


def exhausted(budget: Budget, steps: int, spent: Cost) -> str:
    """Which limit is reached, as a sentence; empty while there is room.

    `steps` counts gated candidates, the seed not among them. Wall time is the engine's working
    time over all runs of the session: time spent waiting for a person does not count.
    """
    if budget.steps is not None and steps >= budget.steps:
        return f"{steps} of {budget.steps} steps are done"
    if budget.usd is not None and spent.usd >= budget.usd:
        return f"${spent.usd:.2f} of ${budget.usd:.2f} are spent"
    if budget.gpu_seconds is not None and spent.gpu_seconds >= budget.gpu_seconds:
        return f"{spent.gpu_seconds:.0f} of {budget.gpu_seconds:.0f} GPU-seconds are spent"
    if budget.wall_seconds is not None and spent.wall_seconds >= budget.wall_seconds:
        return f"{spent.wall_seconds:.0f} of {budget.wall_seconds:.0f} seconds are spent"
    return ""


def left(budget: Budget, steps: int, spent: Cost) -> str:
    """What is left of every limit that was set: `5 steps, 41 s`; `no limit` without any."""
    parts = []
    if budget.steps is not None:
        parts.append(f"{max(0, budget.steps - steps)} steps")
    if budget.usd is not None:
        parts.append(f"${max(0.0, budget.usd - spent.usd):.2f}")
    if budget.gpu_seconds is not None:
        parts.append(f"{max(0.0, budget.gpu_seconds - spent.gpu_seconds):.0f} GPU-s")
    if budget.wall_seconds is not None:
        parts.append(f"{max(0.0, budget.wall_seconds - spent.wall_seconds):.0f} s")
    return ", ".join(parts) if parts else "no limit"
