"""Whether a dear rung has had its share of a run's GPU-seconds, and who still climbs there. Pure.

First come, first served spends a budget on whoever is proposed early. Once a rung has had its
share, what is left goes to the rungs below it: they look at more candidates, and only one that is
clearly faster there climbs. The others wait, and the best of them has its turn before the end.
"""

from collections.abc import Iterable

from workbench.search.ladder import LadderFile
from workbench.search.paying import SMOKE
from workbench.search.prices import Costed


def share_had(visits: Iterable[Costed], file: LadderFile, limit: float | None) -> str:
    """Which rung has had its share of a limit of GPU-seconds, as a clause.

    Empty where none has; without a limit there is nothing to share. Of several the dearest is told.
    """
    spent: dict[str, float] = {}
    for visit in visits:
        spent[visit.rung] = spent.get(visit.rung, 0.0) + visit.gpu_seconds
    for name, spec in reversed(file.rung.items()):
        if spec.share is None or not limit or spent.get(name, 0.0) < spec.share.value * limit:
            continue
        share = f"{100 * spec.share.value:.0f} % of --gpu-seconds"
        return f"{name} has had its {share} ({spent[name]:.0f} of {limit:.0f})"
    return ""


def clear_gain(low: float | None, file: LadderFile) -> bool:
    """Whether the lower end of a ratio at smoke is a gain whatever the rungs above will say."""
    return low is not None and low > max(1.0, file.rung[SMOKE].promote_above.value)
