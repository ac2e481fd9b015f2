"""Warnings while a budget is spent: at half and at four fifths of each limit."""

from workbench.session.records import Budget, Cost

WARN_AT = (0.5, 0.8)
"""Shares of a limit; those that people asked other agents for (ours)."""


class Spending:
    """Remembers what was told, so that each warning comes once a run and limit."""

    def __init__(self, budget: Budget, steps: int, spent: Cost) -> None:
        """`steps` and `spent` are where the run begins: what they passed is not told again."""
        self._budget = budget
        self._told = {
            name: _passed(used / limit) for name, used, limit, _ in self._uses(steps, spent)
        }

    def news(self, steps: int, spent: Cost) -> list[str]:
        """A sentence for each share that was passed since."""
        says = []
        for name, used, limit, words in self._uses(steps, spent):
            passed = _passed(used / limit)
            if passed > self._told[name]:
                self._told[name] = passed
                says.append(f"{100 * used / limit:.0f} % of the {name} are spent: {words}")
        return says

    def _uses(self, steps: int, spent: Cost) -> list[tuple[str, float, float, str]]:
        """Name, use, limit and words of every limit that was set; one of nothing ends a run."""
        budget = self._budget
        limits = (
            ("steps", float(steps), budget.steps, "{:.0f} of {:.0f}"),
            ("dollars", spent.usd, budget.usd, "${:.2f} of ${:.2f}"),
            ("GPU-seconds", spent.gpu_seconds, budget.gpu_seconds, "{:.0f} of {:.0f}"),
            ("seconds of work", spent.wall_seconds, budget.wall_seconds, "{:.0f} of {:.0f}"),
        )
        return [
            (name, used, limit, words.format(used, limit))
            for name, used, limit, words in limits
            if limit
        ]


def _passed(share: float) -> float:
    """The highest of the shares that was passed; 0 for none."""
    return max((at for at in WARN_AT if share >= at), default=0.0)
