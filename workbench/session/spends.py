"""What a run spent beside its versions, a commit each, so that no second of a budget is lost.

`refs/spends/NNNN` names a commit whose parent is the version that it belongs to and whose files are
that version's; `git log --all` tells it in a line. A last look at a kernel is one, and so is the
work on candidates that were begun and never became a version.
"""

import re
import time
from collections.abc import Iterable
from math import inf
from typing import Literal

import msgspec
from msgspec import Struct

from workbench.errors import WorkbenchError
from workbench.gate.records import Verdict
from workbench.session.objects import Person, commit
from workbench.session.plumbing import NO_REF, Plumbing, Ref, Update
from workbench.session.records import Cost

SPENDS = "refs/spends"
_NAMED = re.compile(r"refs/spends/(\d{4,9})")
_SAYS = 400
"""Characters of `says` in a trailer (ours): a finding of compute-sanitizer is a line of 200."""

Purpose = Literal["last look", "thrown away"]


class Spend(Struct, frozen=True, kw_only=True):
    """One thing that time went into and that is no version."""

    purpose: Purpose
    version: int
    """The kernel that was looked at, or that was the incumbent."""
    verdict: Verdict | None = None
    """What a last look came to; None for everything else."""
    says: str = ""
    cost: Cost
    at: str = ""
    """UTC, ISO 8601."""

    def title(self) -> str:
        """`last look at v5: accepted`."""
        if self.verdict is None:
            return f"{self.purpose} beside v{self.version}"
        return f"{self.purpose} at v{self.version}: {self.verdict}"


def spend_ref(number: int) -> str:
    """Where a spend is kept; they count from 1."""
    return f"{SPENDS}/{number:04d}"


def spend_number(ref: str) -> int | None:
    """The number in a spend's name; None when the name is none of ours."""
    found = _NAMED.fullmatch(ref)
    return int(found[1]) if found and ref == spend_ref(int(found[1])) else None


def message(spend: Spend) -> str:
    """The commit message: one plain line, then trailers."""
    says = " ".join("".join(c if c.isprintable() else " " for c in spend.says).split())
    trailers = {
        "Purpose": spend.purpose,
        "Version": str(spend.version),
        "Verdict": "" if spend.verdict is None else spend.verdict.value,
        "Says": says[:_SAYS],
        "GPU-Seconds": f"{spend.cost.gpu_seconds:.3f}",
        "Wall-Seconds": f"{spend.cost.wall_seconds:.3f}",
        "Ahead-Seconds": f"{spend.cost.ahead_seconds:.3f}",
        "At": spend.at,
    }
    rows = "\n".join(f"{key}: {value}" for key, value in trailers.items() if value)
    return f"{spend.title()}\n\n{rows}\n"


def parse(ref: Ref) -> Spend:
    """The spend that a reference names. Raises WorkbenchError when it is none of ours."""
    lines = ref.message.rstrip("\n").rpartition("\n\n")[2].split("\n")
    rows = {key: value for key, _, value in (line.partition(": ") for line in lines)}
    try:
        gpu, wall, ahead = (_seconds(rows[f"{name}-Seconds"]) for name in ("GPU", "Wall", "Ahead"))
        return msgspec.convert(
            {
                "purpose": rows["Purpose"],
                "version": int(rows["Version"]),
                "verdict": rows.get("Verdict"),
                "says": rows.get("Says", ""),
                "cost": {"gpu_seconds": gpu, "wall_seconds": wall, "ahead_seconds": ahead},
                "at": rows.get("At", ""),
            },
            Spend,
        )
    except (KeyError, ValueError, msgspec.ValidationError) as fault:
        why = f"its trailer {fault} is missing" if isinstance(fault, KeyError) else str(fault)
        raise WorkbenchError(
            f"commit {ref.id[:10]} is nothing that a run of the workbench spent: {why}",
            where=ref.name,
        ) from fault


def _seconds(text: str) -> float:
    """Raises ValueError for what is no time; NaN would make every later sum one."""
    seconds = float(text)
    if not 0 <= seconds < inf:
        raise ValueError(f"{text} are no seconds")
    return seconds


def read_spends(refs: Iterable[Ref]) -> tuple[tuple[Spend, ...], dict[str, str]]:
    """The spends among the references, oldest first, and why others under such names are none."""
    named = sorted((number, ref) for ref in refs if (number := spend_number(ref.name)) is not None)
    found: list[Spend] = []
    faults: dict[str, str] = {}
    for _, ref in named:
        try:
            found.append(parse(ref))
        except WorkbenchError as fault:
            faults[ref.name] = ref.unread or fault.what
    return tuple(found), faults


def keep(git: Plumbing, spend: Spend, version_ref: str, person: Person) -> None:
    """Write a spend; on disk when this returns. Raises WorkbenchError where it cannot be."""
    refs = {ref.name: ref for ref in git.refs(SPENDS, version_ref)}
    if version_ref not in refs:
        raise WorkbenchError(f"v{spend.version} is no decided version", where=str(git.folder))
    named = refs[version_ref]
    stamp = person.stamp(int(time.time()))
    node = commit(named.tree, [named.id], stamp, stamp, message(spend))
    git.store([node])
    number = 1 + max((spend_number(name) or 0 for name in refs), default=0)
    git.move([Update(spend_ref(number), node.id, NO_REF)], spend.title())
