"""Where a session's first candidate comes from: --kernel, the shipped seed, else Inductor."""

import msgspec

from workbench.errors import WorkbenchError
from workbench.isolation.outcome import WorkerFault
from workbench.isolation.records import Flavor, Limits
from workbench.isolation.workshop import Workshop
from workbench.kernels.inductor.job import lift_request, seed_of
from workbench.kernels.inductor.records import LiftRefused
from workbench.problems.records import Problem

_JOB = "workbench.kernels.inductor.job:lift"
_SECONDS = 180.0


def find_seed(
    problem: Problem, given: tuple[str, str] | None, target: str, workshop: Workshop
) -> tuple[str, str]:
    """The source of the first candidate and where it came from.

    `given` is a person's own candidate as (source, path). Raises WorkbenchError with the reason
    when the problem ships no seed and Inductor cannot make one.
    """
    # Whatever the seed is, it is judged next, and each forkserver takes seconds to import torch.
    workshop.warm_all()
    if given is not None:
        source, path = given
        return source, f"--kernel {path}"
    if problem.seed is not None:
        return problem.seed.read_text(encoding="utf-8"), f"shipped seed of {problem.name}"
    return _lifted(problem, target, workshop), "lifted from TorchInductor"


def _lifted(problem: Problem, target: str, workshop: Workshop) -> str:
    """A seed from the reference's own code, which is a stranger's: in a sandboxed worker."""
    request = msgspec.to_builtins(lift_request(problem, problem.full, target))
    limits = Limits(wall_seconds=_SECONDS)
    try:
        with workshop.worker(Flavor.COMPILE, limits) as worker:
            return seed_of(worker.call(_JOB, request).body).source
    except LiftRefused as refusal:
        raise WorkbenchError(
            f"no seed for {problem.name}: {refusal.what}",
            where=str(problem.path),
            todo=refusal.todo,
        ) from refusal
    except WorkerFault as fault:
        raise WorkbenchError(
            f"no seed for {problem.name}: TorchInductor did not come to an end: {fault.what}",
            where=str(problem.path),
            todo="write a first Triton candidate and add --kernel FILE",
        ) from fault
