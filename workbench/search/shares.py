"""Whether a dear rung has had its share of a run's GPU-seconds, and who still climbs there. Pure.

First come, first served spends a budget on whoever is proposed early. Once a rung has had its
share, what is left goes to the rungs below it: they look at more candidates, and only one that is
clearly faster there climbs. The others wait, and the best of them has its turn before the end.
"""

from collections.abc import Iterable

from workbench.search.ladder import YOURS, LadderFile
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
        had = spent.get(name, 0.0)
        if spec.share is None or not limit or had < spec.share.value * limit:
            continue
        share = f"{100 * spec.share.value:.3g} % of --gpu-seconds"
        return f"{name} has had its {share} ({had:.3g} of {limit:.4g})"
    return ""


def clear_gain(low: float | None, file: LadderFile) -> bool:
    """Whether the lower end of a ratio at smoke is a gain whatever the rungs above will say."""
    return low is not None and low > max(1.0, file.rung[SMOKE].promote_above.value)


def idle_shares(file: LadderFile, limit: float | None) -> str:
    """A sentence where a person's own shares decide nothing, since no GPU-seconds are limited."""
    own = [name for name, spec in file.rung.items() if spec.share and spec.share.source == YOURS]
    if limit or not own:
        return ""
    return (
        f"the share of {' and '.join(own)} in {YOURS} decides nothing: no GPU-seconds are limited"
    )
