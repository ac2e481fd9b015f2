"""What `facts` and `skills check` share: a candidate assessed offline, without a session."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.errors import WorkbenchError

if TYPE_CHECKING:
    from workbench.engine.assessment import Assessment

Profile = Annotated[
    Path | None,
    typer.Option(help="What `ncu --csv --page raw` printed for it on a GPU.", metavar="FILE"),
]


def assessed(kernel: Path, problem: str, target: str, profile: Path | None = None) -> "Assessment":
    """Every fact and card of a candidate, read without a GPU.

    Raises WorkbenchError where it cannot be used, and where none of its kernels can be read.
    """
    from workbench.engine.assessment import assess
    from workbench.engine.devices import choose_place

    found = assess(kernel, problem, choose_place("cpu", target).target, profile)
    if not found.facts:
        ran = ", ".join(dict.fromkeys(one.kernel for one in found.state.launches))
        raise WorkbenchError(
            f"no text of a kernel is found in the file; {ran} ran" if ran else "it has no kernel",
            where=str(kernel),
            todo="write a kernel as a function below @triton.jit in this file",
        )
    return found
