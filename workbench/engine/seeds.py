"""Where a session's first candidate comes from: --kernel, the shipped seed, else Inductor."""

from workbench.errors import WorkbenchError
from workbench.problems.records import Problem


def find_seed(problem: Problem, given: tuple[str, str] | None, target: str) -> tuple[str, str]:
    """The source of the first candidate and where it came from.

    `given` is a person's own candidate as (source, path). Raises WorkbenchError with the reason
    when the problem ships no seed and Inductor cannot make one.
    """
    if given is not None:
        source, path = given
        return source, f"--kernel {path}"
    if problem.seed is not None:
        return problem.seed.read_text(encoding="utf-8"), f"shipped seed of {problem.name}"
    return _lifted(problem, target)


def _lifted(problem: Problem, target: str) -> tuple[str, str]:
    from workbench.kernels.inductor.seed import LiftRefused, lift_in_subprocess

    try:
        seed = lift_in_subprocess(problem.source, problem.full.values, target)
    except LiftRefused as refusal:
        raise WorkbenchError(
            f"no seed for {problem.name}: TorchInductor's code cannot be lifted: {refusal.reason}",
            where=str(problem.path),
            todo=f"{refusal.todo or 'write a first Triton candidate'}; then add --kernel FILE",
        ) from refusal
    return seed.source, "lifted from TorchInductor"
