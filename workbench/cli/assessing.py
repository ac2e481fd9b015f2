"""What `facts` and `skills check` share: a candidate assessed offline, without a session."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from workbench.engine.assessment import Assessment

Profile = Annotated[
    Path | None,
    typer.Option(help="What `ncu --csv --page raw` printed for it on a GPU.", metavar="FILE"),
]


def assessed(kernel: Path, problem: str, target: str, profile: Path | None = None) -> "Assessment":
    """Every fact and card of a candidate, read without a GPU."""
    from workbench.engine.assessment import assess
    from workbench.engine.devices import choose_place

    return assess(kernel, problem, choose_place("cpu", target).target, profile)
