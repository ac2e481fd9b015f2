"""Which candidates are the same work in another text, so that none is evaluated twice. Pure."""

import hashlib
from collections.abc import Iterable, Sequence

import msgspec

from workbench.kernels.records import HostOperation, Launch, ScalarArgument
from workbench.search.rungs import RungResult


def work_digest(launches: Sequence[Launch], host: Sequence[HostOperation] = ()) -> str:
    """Of the machine code of every launch in order, with its grid, its arguments, and what torch
    does beside them: equal where two texts make a GPU do the same. Empty without launches.

    Names, lines and compile times do not count: they change nothing.
    """
    if not launches:
        return ""
    parts: list[object] = [
        [launch.cubin_sha256, launch.grid, launch.num_warps, launch.num_ctas, *_arguments(launch)]
        for launch in launches
    ]
    parts.append([(operation.name, operation.bytes) for operation in host])
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def _arguments(launch: Launch) -> Iterable[object]:
    for argument in launch.arguments.values():
        yield argument.value if isinstance(argument, ScalarArgument) else argument


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
