"""A lifted seed for a problem, from a process of its own: the lift changes torch for good."""

import os
import subprocess
import sys
from tempfile import TemporaryDirectory

import msgspec

from workbench.kernels.inductor.job import seed_of
from workbench.kernels.inductor.records import LiftedSeed, LiftRefused, LiftRequest
from workbench.problems.records import Problem, Shape


def lift_request(problem: Problem, shape: Shape, target: str) -> LiftRequest:
    """What to ask the job `workbench.kernels.inductor.job:lift` for."""
    return LiftRequest(
        source=problem.source,
        values=shape.values,
        target=target,
        precision=problem.precision,
        name=problem.name,
    )


def seed_from_inductor(
    problem: Problem, shape: Shape, target: str, *, seconds: float = 180.0
) -> LiftedSeed:
    """Lift in a fresh process, which is not sandboxed: only for problems that a person trusts.

    Where the problem is a stranger's, give `lift_request` to a sandboxed worker instead. Raises
    LiftRefused with the reason, also when it takes longer than `seconds`.
    """
    request = msgspec.json.encode(lift_request(problem, shape, target))
    with TemporaryDirectory(prefix="lift") as folder:
        try:
            done = subprocess.run(
                [sys.executable, "-m", "workbench.kernels.inductor", folder],
                input=request,
                capture_output=True,
                timeout=seconds,
                check=False,
                env=os.environ | {"TRITON_INTERPRET": "0"},
            )
        except subprocess.TimeoutExpired as fault:
            raise LiftRefused(f"TorchInductor took longer than {seconds:.0f} s") from fault
    if done.returncode != 0:
        last = done.stderr.decode(errors="replace").strip().rpartition("\n")[2][:300]
        raise LiftRefused(f"the lift's process ended with status {done.returncode}: {last}")
    return seed_of(msgspec.json.decode(done.stdout.splitlines()[-1]))
