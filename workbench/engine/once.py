"""Work over all versions, done once for each moment that has new ones."""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def once(work: Callable[[T], R]) -> Callable[[T], R]:
    """Remember the newest answer for as long as the very same object is asked about.

    For what never changes, as the versions of a snapshot: a moved selection or a clock makes
    another snapshot with the same versions, and thousands of them are not walked again.
    """
    newest: list[tuple[T, R]] = []

    @wraps(work)
    def remembered(about: T) -> R:
        if not newest or newest[0][0] is not about:
            newest[:] = [(about, work(about))]
        return newest[0][1]

    return remembered
