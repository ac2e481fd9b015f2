"""The kernels that cards can be tried on.

A ground is a correct kernel of a shipped problem: its plain seed, another plain form, its expert,
its expert with one mechanism taken out, where a card for that mechanism should have a place, or one
of these with the step of another card, where a card has a place only after that one.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from msgspec import Struct

from workbench.errors import WorkbenchError
from workbench.lineage.removals import removable
from workbench.problems.load import load_problem
from workbench.problems.records import Problem

_WITHOUT = "expert-without-"
AFTER = "+"
"""Between the name of a ground and the card whose step was made on it."""


class Ground(Struct, frozen=True, kw_only=True):
    """A kernel that a card can be tried on."""

    problem: str
    form: str
    """`seed`, the name of another plain form, `expert`, or `expert-without-MECHANISM`; with
    `+CARD` behind it where that card's step was made first."""
    source: str

    @property
    def name(self) -> str:
        """`gelu`, or `gelu/two_kernels`; `chances.ground_named` reads it."""
        return self.problem if self.form == "seed" else f"{self.problem}/{self.form}"


def ground_of(name: str) -> Ground:
    """The ground of a name. Raises WorkbenchError for a problem or form that is not shipped."""
    problem, _, form = name.partition("/")
    every = {one.form: one for one in forms(problem)}
    try:
        return every[form or "seed"]
    except KeyError:
        raise WorkbenchError(
            f"{problem} ships no kernel {form or 'seed'!r}",
            todo=f"one of {', '.join(every)}" if every else "name a problem that ships one",
        ) from None


@cache
def forms(name: str) -> tuple[Ground, ...]:
    """Every kernel of a shipped problem that a card may be tried on, the plain ones first."""
    return tuple(_read(load_problem(name)))


def _read(problem: Problem) -> Iterator[Ground]:
    texts: dict[str, Path] = {}
    if problem.seed is not None:
        texts["seed"] = problem.seed
        forms = sorted((problem.path.parent / "states").glob("*.py"))
        texts |= {path.stem: path for path in forms}
    for form, path in texts.items():
        yield Ground(problem=problem.name, form=form, source=path.read_text(encoding="utf-8"))
    if problem.expert is None:
        return
    expert = problem.expert.read_text(encoding="utf-8")
    without: dict[str, str] = {}
    for inverse, _, found in removable(expert):
        without.setdefault(f"{_WITHOUT}{inverse.category}", found.source)
    for form, text in without.items():
        yield Ground(problem=problem.name, form=form, source=text)
    yield Ground(problem=problem.name, form="expert", source=expert)
