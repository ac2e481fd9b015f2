"""Asks a reference worker about the problem, and turns its failures into messages for a person."""

import re
from typing import Self, TypeVar

from msgspec import Struct

from workbench.errors import WorkbenchError
from workbench.gate.correctness.protocol import decode, encode
from workbench.gate.problem.records import Describe, Described, Examine, Examined
from workbench.isolation.outcome import JobFailed, WorkerDied, WorkerFault, WorkerTimedOut
from workbench.isolation.records import Flavor, Limits
from workbench.isolation.worker import Worker
from workbench.isolation.workshop import Workshop
from workbench.problems.records import Problem, Shape

JOB_MODULES = ("workbench.gate.problem.inspect_job",)
"""Modules to preload in a workshop's forkservers."""

_JOBS = "workbench.gate.problem.inspect_job"

_LINE = re.compile(r" \(line (\d+) of the problem file\)$")

_AFFORDABLE = {"cpu": (256 << 20, 5e9), "cuda": (16 << 30, 1e13)}
"""Limits in bytes and matrix flops for one real run (ours): about a second. An examination makes
some thirty."""

T = TypeVar("T")


class Inspector:
    """Asks a reference worker; starts a new one when one is lost. A context manager."""

    def __init__(self, problem: Problem, workshop: Workshop, seconds: float) -> None:
        self._problem = problem
        self._workshop = workshop
        self._limits = Limits(wall_seconds=seconds)
        self._worker: Worker | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._worker is not None:
            self._worker.close()

    def start(self) -> Worker:
        """Start the worker where there is none; the first one waits for torch to be imported."""
        if self._worker is None:
            self._worker = self._workshop.worker(Flavor.REFERENCE, self._limits)
        return self._worker

    def look(self, shape: Shape, *, only_if_needed: bool = False) -> tuple[Described, bool]:
        """What the reference takes and returns, and whether it ran on real tensors.

        It runs on real tensors where that is affordable, or, with `only_if_needed`, where in
        addition meta tensors do not suffice. Raises WorkbenchError when the reference cannot be
        run.
        """
        try:
            seen = self.describe(shape, meta=True)
        except WorkbenchError:
            # What raises without data (`.item()` in a constructor) may work with it.
            return self.describe(shape, meta=False), True
        if (only_if_needed and not seen.unseen) or not _affordable(seen):
            return seen, False
        return self.describe(shape, meta=False), True

    def describe(self, shape: Shape, *, meta: bool) -> Described:
        """What the reference takes and returns. Raises WorkbenchError when it cannot be run."""
        message = Describe(
            source=self._problem.source,
            values=shape.values,
            precision=self._problem.precision,
            meta=meta,
        )
        return self._ask("describe", message, Described, shape)

    def examine(self, shape: Shape, seeds: tuple[int, ...]) -> Examined:
        """Whether the reference is sound as a judge."""
        message = Examine(
            source=self._problem.source,
            values=shape.values,
            precision=self._problem.precision,
            tolerance=self._problem.tolerance,
            seeds=seeds,
        )
        return self._ask("examine", message, Examined, shape)

    def _ask(self, job: str, message: Struct, kind: type[T], shape: Shape) -> T:
        worker = self.start()
        try:
            reply = worker.call(f"{_JOBS}:{job}", encode(message))
        except WorkerFault as fault:
            if not isinstance(fault, JobFailed):
                self._worker = None
            raise _told(fault, self._problem, shape) from fault
        return decode(reply.body, kind)


def _told(fault: WorkerFault, problem: Problem, shape: Shape) -> WorkbenchError:
    """The end of a worker, in words for a person."""
    where = f"{problem.path}, shape {shape.name}"
    match fault:
        case JobFailed(message=message):
            line = _LINE.search(message)
            if line:
                message, where = message[: line.start()], f"{problem.path}, line {line[1]}"
            todo = "mend the problem file"
            if "cuda" in message.lower():
                todo = "leave `device=` out of it: inputs are made where the problem runs"
            return WorkbenchError(message, where=where, todo=todo)
        case WorkerTimedOut():
            says = f"the reference takes longer than {fault.seconds:g} s"
            return WorkbenchError(says, where=where, todo="add a smaller shape to the sidecar")
        case WorkerDied():
            says = f"the reference's process ended: {fault.what.removeprefix('the worker died: ')}"
            return WorkbenchError(says, where=where, todo="add a smaller shape to the sidecar")
        case _:
            return WorkbenchError(fault.what, where=where)


def moved_bytes(seen: Described) -> int:
    """Bytes of inputs, weights and outputs."""
    entries = (*seen.input_entries, *seen.state, *seen.output_entries)
    return sum(entry.bytes for entry in entries)


def _affordable(seen: Described) -> bool:
    most_bytes, most_flops = _AFFORDABLE[seen.device.split(":")[0]]
    flops = sum(one.matrix_flops for one in seen.operators)
    return moved_bytes(seen) <= most_bytes and flops <= most_flops
