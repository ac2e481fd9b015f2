"""Worker jobs for baselines: time the reference in eager mode, and compiled.

Works on the reference that `reference_job` opened, with one set of inputs: the reference is trusted
and has no reason to cache an answer.
"""

import os
import time
from functools import partial
from typing import Any, cast

import torch
from torch import nn

from workbench.gate.correctness.candidate_job import forward, invoke
from workbench.gate.correctness.comparing import Comparison
from workbench.gate.correctness.gold import foreign
from workbench.gate.correctness.layout import copied
from workbench.gate.correctness.nest import flatten, rebuild
from workbench.gate.correctness.protocol import Compared, Reading, decode, encode
from workbench.gate.correctness.reference_job import Bench, answer, reference_of
from workbench.gate.timing.baselines_protocol import Compiled, CompileNative, Read, TimeRuns
from workbench.gate.timing.clock import Clock
from workbench.isolation.context import JobContext
from workbench.isolation.wire import Blob
from workbench.problems.module import reference_flags

_WARM = 5


class _Running:
    """The reference with its inputs and its clock."""

    def __init__(self, reference: Bench, seed: int) -> None:
        self.reference = reference
        self.clock = Clock(reference.device)
        self.nest, self.inputs = reference.oracle.draw(seed)
        self.compiled: nn.Module | None = None

    def call(self, model: nn.Module) -> object:
        """One synchronized call, not timed."""
        return invoke(model, self._given())

    def read(self, model: nn.Module) -> Reading:
        """One timed call, under the flags of the reference's precision."""
        with reference_flags(self.reference.oracle.precision):
            return self.clock.read(partial(forward, model, self._given()))[1]

    def _given(self) -> Any:  # noqa: ANN401 -- whatever the problem's inputs are
        return rebuild(self.nest, [copied(t) for t in self.inputs])


def time_eager(
    bench: JobContext,
    request: dict[str, Any],
    blobs: list[Blob],  # noqa: ARG001 -- a job's shape
) -> tuple[dict[str, Any], list[Blob]]:
    """Answer `TimeRuns` with `Read`."""
    message = decode(request, TimeRuns)
    running = bench.state["running"] = _Running(reference_of(bench), message.seed)
    return encode(_readings(running, running.reference.oracle.model, message.runs)), []


def compile_native(
    bench: JobContext,
    request: dict[str, Any],
    blobs: list[Blob],  # noqa: ARG001 -- a job's shape
) -> tuple[dict[str, Any], list[Blob]]:
    """Answer `CompileNative` with `Compiled`: compiled, tuned, and compared with the answers."""
    message = decode(request, CompileNative)
    running = _running(bench)
    _settle_inductor(bench)
    oracle = running.reference.oracle
    began = time.monotonic()
    with reference_flags(oracle.precision), torch.no_grad():
        compiled = cast("nn.Module", torch.compile(oracle.model, mode=message.mode, dynamic=False))
        out = running.call(compiled)
    running.compiled = compiled
    seconds = time.monotonic() - began
    return encode(Compiled(seconds=seconds, compared=_compared(running, out))), []


def time_compiled(
    bench: JobContext,
    request: dict[str, Any],
    blobs: list[Blob],  # noqa: ARG001 -- a job's shape
) -> tuple[dict[str, Any], list[Blob]]:
    """Answer `TimeRuns` with `Read`, for what `compile_native` made."""
    running = _running(bench)
    if running.compiled is None:
        raise RuntimeError("nothing is compiled")
    return encode(_readings(running, running.compiled, decode(request, TimeRuns).runs)), []


def _readings(running: _Running, model: nn.Module, runs: int) -> Read:
    for _ in range(_WARM):
        running.read(model)
    return Read(us=tuple(running.read(model).us for _ in range(runs)))


def _compared(running: _Running, out: object) -> Compared:
    """The first compiled outputs compared with the reference's, by the gate's rules."""
    reference = running.reference
    outputs = flatten(out, foreign)[1]
    answer(reference, running.nest, running.inputs)
    made = reference.call
    if made is None:
        raise RuntimeError("there are no answers")
    comparison = Comparison(
        made,
        rule=reference.rule,
        selections=reference.message.selections,
        oracle=reference.oracle,
    )
    return Compared(measured=tuple(comparison.measured(outputs)))


def _settle_inductor(bench: JobContext) -> None:
    """Keep Inductor in this process and its scratch folder: the sandbox forbids worker pools."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(bench.scratch / "inductor")
    import torch._inductor.config as inductor

    inductor.compile_threads = 1
    inductor.autotune_in_subproc = False


def _running(bench: JobContext) -> _Running:
    running = bench.state["running"]
    if not isinstance(running, _Running):
        raise TypeError("the reference is not running")
    return running
