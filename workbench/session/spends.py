"""Costs of a run that belong to no version: each is a commit, so that none is lost.

`refs/spends/NNNN` names a commit whose parent is the version that it belongs to and whose files are
that version's; `git log --all` shows it in a line. A last look at a kernel is one, and so is the
work on candidates that were begun and never became a version.
"""

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
from workbench.session.series import Series, no_member, rows_of, rows_text
from workbench.session.trailers import plain

SPENDS = "refs/spends"
_SERIES = Series(prefix=SPENDS)
_SAYS = 400
"""Characters of `says` in a trailer (ours): a finding of compute-sanitizer is a line of 200."""

Purpose = Literal["last look", "thrown away", "cut off"]
"""`cut off`: of a step that was under way when its engine was killed, as much as is known."""


class Spend(Struct, frozen=True, kw_only=True):
    """One cost that belongs to no version."""

    purpose: Purpose
    version: int
    """The kernel that was looked at, or that was the incumbent."""
    verdict: Verdict | None = None
    """What a last look came to; None for everything else."""
    says: str = ""
    cost: Cost
    at: str = ""
    """UTC, ISO 8601."""

    @property
    def counted_as(self) -> str:
        """The purpose, with a word where the cost is a lower bound: `cut off, at least`."""
        return f"{self.purpose}, at least" if self.purpose == "cut off" else self.purpose

    def title(self) -> str:
        """`last look at v5: accepted`."""
        if self.verdict is None:
            return f"{self.counted_as} beside v{self.version}"
        return f"{self.purpose} at v{self.version}: {self.verdict}"


spend_ref, spend_number = _SERIES.ref, _SERIES.number


def message(spend: Spend) -> str:
    """The commit message: one plain line, then trailers."""
    trailers = {
        "Purpose": spend.purpose,
        "Version": str(spend.version),
        "Verdict": "" if spend.verdict is None else spend.verdict.value,
        "Says": plain(spend.says)[:_SAYS],
        "GPU-Seconds": f"{spend.cost.gpu_seconds:.3f}",
        "Wall-Seconds": f"{spend.cost.wall_seconds:.3f}",
        "Ahead-Seconds": f"{spend.cost.ahead_seconds:.3f}",
        "At": spend.at,
    }
    return f"{spend.title()}\n\n{rows_text(trailers)}\n"


def parse(ref: Ref) -> Spend:
    """The spend that a reference names. Raises WorkbenchError when it names none."""
    rows = rows_of(ref.message)
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
        raise no_member(ref, "nothing that a run of the workbench spent", fault) from fault


def _seconds(text: str) -> float:
    """Raises ValueError for what is not a time; NaN would make every later sum one."""
    seconds = float(text)
    if not 0 <= seconds < inf:
        raise ValueError(f"{text} is not a number of seconds")
    return seconds


def read_spends(refs: Iterable[Ref]) -> tuple[tuple[Spend, ...], dict[str, str]]:
    """The spends among the references, oldest first, and why others with such names are invalid."""
    return _SERIES.read(refs, parse)


def keep(git: Plumbing, spend: Spend, version_ref: str, person: Person) -> None:
    """Write a spend; on disk when this returns. Raises WorkbenchError where it cannot be."""
    refs = {ref.name: ref for ref in git.refs(SPENDS, version_ref)}
    if version_ref not in refs:
        raise WorkbenchError(
            f"v{spend.version} is not a decided version",
            where=str(git.folder),
            todo="`workbench log` lists the versions",
        )
    named = refs[version_ref]
    stamp = person.stamp(int(time.time()))
    node = commit(named.tree, [named.id], stamp, stamp, message(spend))
    git.store([node])
    git.move([Update(spend_ref(_SERIES.following(refs)), node.id, NO_REF)], spend.title())
