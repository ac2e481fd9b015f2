"""What the reference's worker does for `bench model`: build variants of our seeds and time them.

The variants are edits of our own kernels, so they may run beside the reference, which no candidate
of anybody else ever does. Works on the reference that `reference_job` opened.
"""

import importlib.util
import sys
from functools import partial
from typing import Any

import torch
from torch import nn

from workbench.bench.model_protocol import Load, Ready, TimeIt, Times
from workbench.gate.correctness.candidate_job import forward, invoke
from workbench.gate.correctness.comparing import Comparison
from workbench.gate.correctness.gold import foreign, state_of
from workbench.gate.correctness.layout import copied
from workbench.gate.correctness.nest import Nest, flatten, rebuild
from workbench.gate.correctness.protocol import Compared, decode, encode
from workbench.gate.correctness.reference_job import Bench, answer, reference_of
from workbench.gate.timing.clock import Clock
from workbench.isolation.context import JobContext
from workbench.isolation.wire import Blob

_WARM, _LEAST, _MOST = 2, 5, 20
_ENOUGH_US = 150_000.0
"""Of timed calls for one variant."""


class _Desk:
    """Inputs, answers, clock and the variants that are loaded."""

    def __init__(self, reference: Bench, seed: int) -> None:
        self.reference = reference
        self.clock = Clock(reference.device)
        self.nest: Nest
        self.nest, self.inputs = reference.oracle.draw(seed)
        self.models: dict[int, nn.Module] = {}
        answer(reference, self.nest, self.inputs)

    def given(self) -> Any:  # noqa: ANN401 -- whatever the problem's inputs are
        """The inputs, to be spoilt."""
        return rebuild(self.nest, [copied(t) for t in self.inputs])


def ready(
    bench: JobContext,
    request: dict[str, Any],
    blobs: list[Blob],  # noqa: ARG001 -- a job's shape
) -> tuple[dict[str, Any], list[Blob]]:
    """Draw and answer."""
    bench.state["desk"] = _Desk(reference_of(bench), decode(request, Ready).seed)
    return {}, []


def load(
    bench: JobContext,
    request: dict[str, Any],
    blobs: list[Blob],  # noqa: ARG001 -- a job's shape
) -> tuple[dict[str, Any], list[Blob]]:
    """Answer `Load` with `Compared`."""
    message, desk = decode(request, Load), _desk(bench)
    model = _built(bench, desk, message)
    outputs = flatten(invoke(model, desk.given()), foreign)[1]
    reference, made = desk.reference, desk.reference.call
    if made is None:
        raise RuntimeError("there are no answers")
    comparison = Comparison(
        made,
        rule=reference.rule,
        selections=reference.message.selections,
        oracle=reference.oracle,
    )
    compared = Compared(measured=tuple(comparison.measured(outputs)))
    desk.models[message.number] = model
    if bench.device != "cpu":
        torch.cuda.empty_cache()
    return encode(compared), []


def time_it(
    bench: JobContext,
    request: dict[str, Any],
    blobs: list[Blob],  # noqa: ARG001 -- a job's shape
) -> tuple[dict[str, Any], list[Blob]]:
    """Answer `TimeIt` with `Times`."""
    desk = _desk(bench)
    model = desk.models[decode(request, TimeIt).number]
    times: list[float] = []
    for turn in range(_WARM + _MOST):
        _, reading = desk.clock.read(partial(forward, model, desk.given()))
        if turn >= _WARM:
            times.append(reading.us)
        if len(times) >= _LEAST and sum(times) > _ENOUGH_US:
            break
    return encode(Times(us=tuple(times))), []


def _built(bench: JobContext, desk: _Desk, message: Load) -> nn.Module:
    """`ModelNew` with the reference's weights."""
    name = f"variant_{message.number}"
    file = bench.scratch / f"{name}.py"
    file.write_text(message.source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    init = desk.reference.oracle.module.get_init_inputs()
    model = module.ModelNew(**init) if isinstance(init, dict) else module.ModelNew(*init)
    if not isinstance(model, nn.Module):
        raise TypeError("ModelNew makes no module")
    model = model.to(bench.device)
    for key, tensor in state_of(model).items():
        tensor.data.copy_(desk.reference.weights[key])
    return model


def _desk(bench: JobContext) -> _Desk:
    desk = bench.state["desk"]
    if not isinstance(desk, _Desk):
        raise TypeError("nothing is ready")
    return desk
