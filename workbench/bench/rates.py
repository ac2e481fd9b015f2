"""How often something happened, with the exact confidence interval of its rate."""

import math
from collections.abc import Callable

from msgspec import Struct

_CONFIDENCE = 0.95


class Rate(Struct, frozen=True, kw_only=True):
    """How often something happened."""

    times: int
    of: int
    low: float
    high: float
    """Ends of the Clopper-Pearson interval, 95 %; one-sided if the rate is 0 or 1."""

    @property
    def share(self) -> float:
        """The rate, 0 to 1; NaN if it was never tried."""
        return self.times / self.of if self.of else math.nan

    def words(self) -> str:
        """The rate as text: `0 of 312 (at most 0.96 %)`."""
        if not self.of:
            return "not tried"
        if self.times == 0:
            return f"0 of {self.of} (at most {_percent(self.high)} %)"
        if self.times == self.of:
            return f"{self.of} of {self.of} (at least {100 * self.low:.3g} %)"
        return f"{self.times} of {self.of} ({_percent(self.low)} to {100 * self.high:.3g} %)"


def _percent(share: float) -> str:
    """Two digits, three where two would round to `1e+02`."""
    return f"{100 * share:.2g}" if share < 0.995 else f"{100 * share:.3g}"


def rate(times: int, of: int) -> Rate:
    """The rate with its exact interval (Clopper and Pearson 1934, Biometrika 26(4))."""
    if not of:
        return Rate(times=0, of=0, low=0.0, high=1.0)
    error = 1 - _CONFIDENCE if times in (0, of) else (1 - _CONFIDENCE) / 2
    low = 0.0 if times == 0 else _solve(lambda p: 1 - _below(times - 1, of, p), error)
    high = 1.0 if times == of else _solve(lambda p: 1 - _below(times, of, p), 1 - error)
    return Rate(times=times, of=of, low=low, high=high)


def _below(times: int, of: int, chance: float) -> float:
    """Probability that an event of this chance happens at most `times` times in `of`."""
    if chance in (0.0, 1.0):
        return float(chance == 0.0 or times >= of)
    terms = (
        math.lgamma(of + 1)
        - math.lgamma(k + 1)
        - math.lgamma(of - k + 1)
        + k * math.log(chance)
        + (of - k) * math.log1p(-chance)
        for k in range(times + 1)
    )
    return min(1.0, sum(map(math.exp, terms)))


def _solve(rising: Callable[[float], float], value: float) -> float:
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < value else (low, middle)
    return low
