"""The goal of a run: a speed against the seed or a time, and whether the best kernel reaches it."""

import re

from msgspec import Struct

from workbench.errors import WorkbenchError
from workbench.measure.records import Speed, Time
from workbench.session.records import Budget

NO_GOAL = "none"
_TEXT = re.compile(r"(\d+(?:\.\d+)?)\s*(x|us|ms)")
_MICROSECONDS = {"us": 1.0, "ms": 1000.0}


class Goal(Struct, frozen=True, kw_only=True):
    """Either of two goals: the run ends when the best accepted kernel reaches it."""

    speed: float | None = None
    """Times the seed's speed."""
    microseconds: float | None = None
    """Time of the kernel, at the shape whose speed counts."""

    def words(self) -> str:
        """`1.5x the seed`, `900 us`."""
        if self.speed is not None:
            return f"{self.speed:g}x the seed"
        return f"{self.microseconds:g} us"

    def reached(self, time: Time | None, versus_seed: Speed | None) -> bool:
        """Whether a kernel of this time and speed reaches the goal.

        Of a measured number the worse end of its interval must reach it: what noise could take back
        does not count.
        """
        if self.speed is not None:
            if versus_seed is None:
                return False
            low = versus_seed.ratio if versus_seed.low is None else versus_seed.low
            return low >= self.speed
        if time is None or self.microseconds is None:
            return False
        high = time.microseconds if time.high is None else time.high
        return high <= self.microseconds


def goal_of(budget: Budget) -> Goal | None:
    """The goal of a run; None without one, and for a text that is none (a stranger's session)."""
    found = _TEXT.fullmatch((budget.goal or "").strip().lower())
    value = float(found[1]) if found else 0.0
    if found is None or value <= 0 or (found[2] == "x" and value <= 1):
        return None
    if found[2] == "x":
        return Goal(speed=value)
    return Goal(microseconds=value * _MICROSECONDS[found[2]])


def checked_goal(text: str | None) -> str | None:
    """The text of a goal for `session.toml`: empty for none, None to leave it unchanged.

    Raises WorkbenchError for a text that is not a goal.
    """
    if text is None:
        return None
    if text.strip().lower() in {"", NO_GOAL}:
        return ""
    if goal_of(Budget(goal=text)) is None:
        raise WorkbenchError(
            f"{text!r} is not a goal",
            where="--goal",
            todo="a speed above the seed's, like 1.5x; a time, like 900us or 0.9ms; or none",
        )
    return text.strip()


def reached_words(budget: Budget, number: int, time: Time | None, versus_seed: Speed | None) -> str:
    """A sentence that version `number` reaches the goal, with its number; empty if it does not."""
    goal = goal_of(budget)
    if goal is None or not goal.reached(time, versus_seed):
        return ""
    if goal.speed is not None and versus_seed is not None:
        full = versus_seed.in_full()
        return f"the goal of {goal.words()} is reached: v{number} has {full} against the seed"
    if time is None:
        return ""
    high = "" if time.high is None else f", at most {time.high:.1f} us"
    took = f"{time.microseconds:.1f} us {time.kind}{high}"
    return f"the goal of {goal.words()} is reached: v{number} takes {took}"
