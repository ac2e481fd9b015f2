"""Which candidates do the same work in another text, so that none is evaluated twice. Pure."""

from collections.abc import Iterable

from workbench.search.rungs import RungResult


def same_as(one: RungResult, history: Iterable[RungResult]) -> RungResult | None:
    """The earliest result of another candidate with the same text or the same work; None without.

    Independent of the order of `history`: earliest is by transition number, then by text.
    """
    alike = [
        other
        for other in history
        if (other.number, other.sha256) != (one.number, one.sha256)
        and (other.sha256 == one.sha256 or (one.cubin and other.cubin == one.cubin))
    ]
    return min(alike, key=_age, default=None)


def _age(one: RungResult) -> tuple[bool, int, str]:
    return one.number is None, one.number or 0, one.sha256
