"""Numbered references beside the versions, each a commit whose last paragraph says what it is."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from msgspec import Struct

from workbench.errors import WorkbenchError
from workbench.session.plumbing import Ref

T = TypeVar("T")


class Series(Struct, frozen=True):
    """References `PREFIX/NNNN`, counted from 1."""

    prefix: str

    def ref(self, number: int) -> str:
        """The name of one."""
        return f"{self.prefix}/{number:04d}"

    def number(self, ref: str) -> int | None:
        """The number in a name; None when the name is none of the series."""
        found = re.fullmatch(rf"{self.prefix}/(\d{{4,9}})", ref)
        return int(found[1]) if found and ref == self.ref(int(found[1])) else None

    def following(self, names: Iterable[str]) -> int:
        """The number after the highest among the names."""
        return 1 + max((self.number(name) or 0 for name in names), default=0)

    def read(
        self, refs: Iterable[Ref], parse: Callable[[Ref], T]
    ) -> tuple[tuple[T, ...], dict[str, str]]:
        """What the series' references say, oldest first, and why others like them are invalid.

        `parse` raises WorkbenchError for those.
        """
        named = sorted((n, ref) for ref in refs if (n := self.number(ref.name)) is not None)
        found: list[T] = []
        faults: dict[str, str] = {}
        for _, ref in named:
            try:
                found.append(parse(ref))
            except WorkbenchError as fault:
                faults[ref.name] = ref.unread or fault.what
        return tuple(found), faults


def rows_text(rows: Mapping[str, str]) -> str:
    """`Key: value`, a line each, without what is empty."""
    return "\n".join(f"{key}: {value}" for key, value in rows.items() if value)


def rows_of(message: str) -> dict[str, str]:
    """The rows of a message's last paragraph."""
    lines = message.rstrip("\n").rpartition("\n\n")[2].split("\n")
    return {key: value for key, _, value in (line.partition(": ") for line in lines)}


def no_member(ref: Ref, what: str, fault: Exception, todo: str = "") -> WorkbenchError:
    """The error for a commit that is not `what`; a KeyError says which row is missing."""
    why = f"its trailer {fault} is missing" if isinstance(fault, KeyError) else str(fault)
    return WorkbenchError(f"commit {ref.id[:10]} is {what}: {why}", where=ref.name, todo=todo)
