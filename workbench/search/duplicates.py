"""Which candidates are the same work in another text, so that none is evaluated twice. Pure."""

from collections.abc import Iterable

from workbench.search.rungs import RungResult


def same_as(one: RungResult, history: Iterable[RungResult]) -> RungResult | None:
    """The earliest result of another candidate with the same text or the same work; None without.

    The order of `history` changes nothing: earliest is by transition number, then by text.
    """
    alike = [
        other
        for other in history
        if (other.number, other.sha256) != (one.number, one.sha256)
        and (other.sha256 == one.sha256 or (one.cubin and other.cubin == one.cubin))
    ]
    return min(alike, key=_age, default=None)


def why_same(one: RungResult, history: Iterable[RungResult]) -> str:
    """`same kernel as v7` or `same text as v7`; empty when it is new."""
    other = same_as(one, history)
    if other is None:
        return ""
    what = "text" if other.sha256 == one.sha256 else "kernel"
    name = other.sha256[:9] if other.number is None else f"v{other.number}"
    return f"same {what} as {name}"


def _age(one: RungResult) -> tuple[bool, int, str]:
    return one.number is None, one.number or 0, one.sha256
