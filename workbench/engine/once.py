"""Work that is done once: for each moment that has new versions, or for an object's whole life."""

from collections.abc import Callable
from functools import cached_property, wraps
from threading import RLock
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")
R = TypeVar("R")


def once(work: Callable[[T], R]) -> Callable[[T], R]:
    """Cache the newest answer for as long as the same object is asked about.

    For values that never change, such as the versions of a snapshot: a moved selection or a clock
    tick makes another snapshot with the same versions, and thousands of them are not walked again.
    """
    newest: list[tuple[T, R]] = []

    @wraps(work)
    def remembered(about: T) -> R:
        if not newest or newest[0][0] is not about:
            newest[:] = [(about, work(about))]
        return newest[0][1]

    return remembered


class made_once(cached_property[R], Generic[R]):  # noqa: N801 -- used as the one it extends
    """A thread-safe cached property: one thread computes it, the others wait.

    From Python 3.12 on functools' own may compute it twice. One lock per object, so that what is
    computed may ask for other cached properties.
    """

    @overload
    def __get__(self, instance: None, owner: type[Any] | None = None) -> "made_once[R]": ...

    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> R: ...

    def __get__(self, instance: object, owner: type[Any] | None = None) -> "R | made_once[R]":
        """The value, made by the first who asks."""
        if instance is None:
            return self
        with instance.__dict__.setdefault("_making", RLock()):
            return super().__get__(instance, owner)
