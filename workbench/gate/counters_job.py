"""The program that Nsight Compute profiles: a candidate, built and called as in the check.

`python -m workbench.gate.counters_job REQUEST LAYERS`, started by ncu. Weights and inputs are drawn
from the problem's own code first; then this process confines itself, and only then is the
candidate's file imported. Nothing that it prints is believed: only ncu's report is read.
"""

import importlib
import resource
import sys
import time
from pathlib import Path

import msgspec
import torch
from msgspec import Struct

from workbench.gate.correctness.candidate_job import FILE, applied, invoke
from workbench.gate.correctness.launching import carried_out
from workbench.gate.correctness.nest import rebuild
from workbench.gate.correctness.oracle import Oracle
from workbench.gate.problem.code import init_arguments
from workbench.gate.tool_program import CallRequest
from workbench.isolation.records import Layer
from workbench.isolation.sandbox import confine
from workbench.kernels.module_state import state_of

WARM_UPS = 3
"""Calls before the profiled one, in each of two rounds: the very first compiles and tunes."""
_CPU_SECONDS = 600
_FILE_BYTES = 512 << 20
_LOOK_SECONDS = 0.02


class _Drawn(Struct, frozen=True):
    """The candidate's arguments and weights."""

    init: object
    arguments: object
    weights: dict[str, torch.Tensor]


def main() -> None:
    """Call the candidate once between cuProfilerStart and cuProfilerStop, after warm-ups."""
    file, told = Path(sys.argv[1]), Path(sys.argv[2])
    request = msgspec.json.decode(file.read_bytes(), type=CallRequest)
    file.unlink()
    if request.stops:
        importlib.import_module("triton")
    _wait(request, 0)
    scratch = Path.cwd()
    drawn = _drawn(request)
    with told.open("wb") as layers:
        layers.write(msgspec.json.encode(_confined(request, scratch)))
    (scratch / FILE).write_text(request.candidate, encoding="utf-8")
    sys.path.insert(0, str(scratch))
    interpreted = request.device == "cpu"
    with carried_out(interpreted=interpreted, target=request.target, source=""):
        _call(request, drawn)


def _wait(request: CallRequest, stop: int) -> None:
    """Report that a stop is reached and wait to be released; a wait is ended from outside."""
    if request.stops:
        reached, go = map(Path, request.stops[stop])
        reached.touch()
        while not go.exists():
            time.sleep(_LOOK_SECONDS)


def _drawn(request: CallRequest) -> _Drawn:
    """Draw weights and inputs as the check does; also starts CUDA and ncu's in-process part."""
    oracle = Oracle(
        request.problem,
        request.values,
        seed=request.seed,
        precision=request.precision,
        device=request.device,
    )
    oracle.perturb(request.seed)
    init = rebuild(*init_arguments(oracle.module, request.seed))
    arguments = rebuild(*oracle.draw(request.seed))
    # The candidate must not find the reference in this process.
    sys.modules.pop(oracle.module.__name__, None)
    return _Drawn(init, arguments, oracle.weights)


def _confined(request: CallRequest, scratch: Path) -> list[Layer]:
    """Confine this process from within: CUDA is initialized and ncu's connection is open.

    Threads that the driver and the profiler have started stay outside Landlock; seccomp covers
    them. Capabilities stay: the driver may require them before it exposes its counters.
    """
    for what, bound in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, _CPU_SECONDS),
        (resource.RLIMIT_FSIZE, _FILE_BYTES),
    ):
        ceiling = resource.getrlimit(what)[1]
        least = bound if ceiling == resource.RLIM_INFINITY else min(bound, ceiling)
        resource.setrlimit(what, (least, least))
    plan = request.confinement
    if plan is None:
        return []
    grants = plan.common_grants()
    return confine(plan, grants, scratch, spaces=0, private_proc=False, keep_capabilities=True)


def _call(request: CallRequest, drawn: _Drawn) -> None:
    module = importlib.import_module(Path(FILE).stem)
    torch.manual_seed(request.seed)
    model: torch.nn.Module = applied(module.ModelNew, drawn.init).to(request.device)
    for name, tensor in state_of(model).items():
        if name in drawn.weights:
            tensor.data.copy_(drawn.weights[name])
    warm_ups = WARM_UPS if request.device != "cpu" else 0
    for _ in range(warm_ups):
        invoke(model, drawn.arguments)
    _wait(request, 1)
    if request.device == "cpu":
        invoke(model, drawn.arguments)
        return
    # Again: the clocks have dropped while it waited.
    for _ in range(warm_ups):
        invoke(model, drawn.arguments)
    torch.cuda.profiler.start()  # type: ignore[no-untyped-call]  # untyped in torch
    invoke(model, drawn.arguments)
    torch.cuda.profiler.stop()  # type: ignore[no-untyped-call]  # untyped in torch


if __name__ == "__main__":
    main()
