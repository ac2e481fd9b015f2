"""Easier sandboxes, tried in turn where a GPU's driver does not start in the full one.

`Worker.layers` says what was left off. What one worker's GPU needed, the next one's needs too.
"""

from msgspec import structs

from workbench.isolation.sandbox import Confinement

_BECAUSE = "the GPU did not start in it"


def eased(plan: Confinement, step: int) -> Confinement:
    """A plan at a step: 0 is the full one, 1 has no namespaces and no bubblewrap, at 2 Landlock
    closes after the driver has started. A plan without a GPU stays as it is.
    """
    if not plan.gpu or step == 0:
        return plan
    plan = structs.replace(plan, namespaces=False, device_first=step > 1)
    if plan.wrapped:
        plan = structs.replace(plan, wrapped=False, unwrapped_because=_BECAUSE)
    return plan


def next_step(plan: Confinement, tried: int) -> int | None:
    """The first step after `tried` that leaves off more; None after the last."""
    return next((s for s in (1, 2) if s > tried and eased(plan, s) != eased(plan, tried)), None)
