"""One row of the tables of costs that `bench start`, `gate`, `skills` and `screen` print."""

from msgspec import Struct


class Row(Struct, frozen=True, kw_only=True):
    """One line of a table of costs."""

    what: str
    says: str
    """The measured value with its unit."""
    goal: str
    """The limit with its unit; empty where there is none."""
    met: bool
    """Whether the value meets the goal."""
    parts: dict[str, float] = {}
    """Seconds of a typical run by part; parts that run in parallel add up to more than the run."""


def seconds_row(what: str, value: float, limit: float) -> Row:
    """A row for a duration that is to stay below a limit, both in seconds."""
    return Row(what=what, says=f"{value:.3f} s", goal=f"{limit:g} s", met=value < limit)
