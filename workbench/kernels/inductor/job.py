"""The worker-side job that lifts a seed. It changes torch for good: one worker, one lift."""

import os
from pathlib import Path
from typing import Any, Protocol

import msgspec

from workbench.kernels.inductor.records import LiftedSeed, LiftRefused, LiftRequest, Refusal
from workbench.problems.records import Problem, Shape


def lift_request(problem: Problem, shape: Shape, target: str) -> LiftRequest:
    """What to ask the job `lift` for: a seed of the problem at one shape, for one kind of GPU."""
    return LiftRequest(
        source=problem.source,
        values=shape.values,
        target=target,
        precision=problem.precision,
        name=problem.name,
    )


class Bench(Protocol):
    """What the job needs of the worker it runs in."""

    @property
    def scratch(self) -> Path:
        """Its private folder."""


def lift(
    bench: Bench,
    request: dict[str, Any],
    blobs: list[Any],  # noqa: ARG001 -- a job's signature
) -> tuple[dict[str, Any], list[Any]]:
    """Answer a `LiftRequest` with `LiftedSeed` or `Refusal`, as builtins."""
    asked = msgspec.convert(request, LiftRequest)
    # Inductor writes what it generates to disk.
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(bench.scratch / "inductor")
    return msgspec.to_builtins(answer(asked)), []


def answer(asked: LiftRequest) -> LiftedSeed | Refusal:
    """Lift; every fault becomes a refusal: the reference and Inductor may raise anything."""
    from workbench.kernels.inductor.lift import lift as lift_here

    try:
        return lift_here(asked)
    except LiftRefused as refusal:
        return Refusal(what=refusal.what, todo=refusal.todo)
    except Exception as fault:  # noqa: BLE001 -- a stranger's code and a compiler's insides
        text = str(fault).strip().partition("\n")[0][:300]
        refused = LiftRefused(
            f"the reference cannot be traced: {type(fault).__name__}: {text}",
            todo="call Model in plain PyTorch, and correct the file if it raises there too",
        )
        return Refusal(what=refused.what, todo=refused.todo)


def seed_of(body: dict[str, Any]) -> LiftedSeed:
    """The seed in the job's answer. Raises LiftRefused when the answer is a refusal."""
    said: LiftedSeed | Refusal = msgspec.convert(body, LiftedSeed | Refusal)
    if isinstance(said, Refusal):
        raise _again(said)
    return said


def _again(said: Refusal) -> LiftRefused:
    refused = LiftRefused(said.what)
    refused.todo = said.todo
    return refused
