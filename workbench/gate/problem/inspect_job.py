"""Worker jobs that examine a problem before any candidate: shapes, work, soundness."""

from collections.abc import Iterator
from typing import Any

import torch

from workbench.gate.correctness.candidate_job import invoke
from workbench.gate.correctness.compare import measure, rule_for
from workbench.gate.correctness.gold import Answer, foreign, state_of
from workbench.gate.correctness.layout import entry, same_bits
from workbench.gate.correctness.nest import Nest, flatten, rebuild, tensor_paths
from workbench.gate.correctness.oracle import Oracle
from workbench.gate.correctness.protocol import Measured, TensorEntry, decode, encode
from workbench.gate.problem.code import ProblemRaised, build, draw, init_arguments, load, telling
from workbench.gate.problem.counting import Counting, whole
from workbench.gate.problem.records import Describe, Described, Examine, Examined, OutputHealth
from workbench.isolation.context import JobContext
from workbench.isolation.wire import Blob
from workbench.problems.module import reference_flags
from workbench.problems.records import Precision

_BUILD_SEED = 0
"""Inspection reveals nothing that a candidate could use, so its seeds are not secret."""

_MOST_STATE = 64
"""Most parameters whose influence is tested one by one (ours): each costs a run of the reference.
"""


def describe(
    bench: JobContext,
    request: dict[str, Any],
    blobs: list[Blob],  # noqa: ARG001 -- a job's shape
) -> tuple[dict[str, Any], list[Blob]]:
    """Run the reference once, on meta tensors or for real, and count what it does."""
    message = decode(request, Describe)
    device = "meta" if message.meta else bench.device
    module = load(message.source, message.values)
    init, init_tensors = init_arguments(module, _BUILD_SEED)
    model = build(module, _BUILD_SEED, device)
    inputs, tensors = draw(module, _BUILD_SEED, device)
    state = state_of(model)
    outputs: Nest | None = None
    made: list[torch.Tensor] = []
    unseen = ""
    counted = Counting()
    try:
        with telling("the reference"), reference_flags(message.precision):
            with whole(counted):
                out = invoke(model, rebuild(inputs, tensors))
            outputs, made = flatten(out, foreign)
    except ProblemRaised as fault:
        if not message.meta:
            raise
        unseen = str(fault)
    reply = Described(
        init=init,
        init_entries=_entries(init, init_tensors),
        inputs=inputs,
        input_entries=_entries(inputs, tensors),
        state=tuple(entry(name, t) for name, t in state.items()),
        outputs=outputs,
        output_entries=() if outputs is None else _entries(outputs, made),
        operators=tuple(counted.operators),
        read_bytes=counted.read_of([*tensors, *state.values()]),
        device=bench.device,
        unseen=unseen,
    )
    return encode(reply), []


def examine(
    bench: JobContext,
    request: dict[str, Any],
    blobs: list[Blob],  # noqa: ARG001 -- a job's shape
) -> tuple[dict[str, Any], list[Blob]]:
    """Whether outputs vary, depend on all inputs and state, are finite, repeat, and agree with
    fp64.
    """
    message = decode(request, Examine)
    oracle = Oracle(
        message.source,
        message.values,
        seed=_BUILD_SEED,
        precision=message.precision,
        device=bench.device,
    )
    oracle.perturb(_BUILD_SEED)
    drawn = [oracle.draw(seed) for seed in message.seeds]
    answers = [oracle.native(nest, inputs) for nest, inputs in drawn]
    again = oracle.native(*drawn[0])
    gold = oracle.gold(*drawn[0], answers[0])
    reply = Examined(
        outputs=tuple(_health(answers)),
        ignored_inputs=tuple(_ignored_inputs(oracle, drawn, answers)),
        ignored_state=tuple(_ignored_state(oracle, drawn[0], answers[0])),
        repeat_ratio=_worst(message, again, answers[0], answers[0]),
        own_ratio=_own(message, answers[0], gold),
        why_not_fp64=oracle.why_not_fp64,
    )
    return encode(reply), []


Drawn = tuple[Nest, list[torch.Tensor]]


def _entries(nest: Nest, tensors: list[torch.Tensor]) -> tuple[TensorEntry, ...]:
    return tuple(entry(path, t) for path, t in zip(tensor_paths(nest), tensors, strict=True))


def _health(answers: list[Answer]) -> Iterator[OutputHealth]:
    names = tensor_paths(answers[0].nest)
    for place, first in enumerate(answers[0].outputs):
        same = [a.outputs[place] for a in answers if a.outputs[place].shape == first.shape]
        values = torch.stack([t.double() for t in same])
        finite = bool(torch.isfinite(values).all())
        values = torch.nan_to_num(values)
        scale = float(values.square().mean().sqrt()) or 1.0
        spread = values.std(dim=0).mean() if len(same) > 1 and first.numel() else torch.tensor(1.0)
        yield OutputHealth(
            name=names[place],
            finite=finite,
            over_seeds=float(spread) / scale,
            along_axes=tuple(
                float(values.std(dim=axis + 1).mean()) / scale if size > 1 else 1.0
                for axis, size in enumerate(first.shape)
            ),
        )


def _ignored_inputs(oracle: Oracle, drawn: list[Drawn], answers: list[Answer]) -> Iterator[str]:
    """Names of inputs whose values have no effect on the outputs."""
    nest, inputs = drawn[0]
    for place, name in enumerate(tensor_paths(nest)):
        others = [d[1][place] for d in drawn[1:] if len(d[1]) == len(inputs)]
        others = [t for t in others if t.shape == inputs[place].shape]
        others = [t for t in others if not same_bits(t, inputs[place])]
        tried = [[*inputs[:place], other, *inputs[place + 1 :]] for other in others[:3]]
        if tried and all(_same(oracle.native(nest, one), answers[0]) for one in tried):
            yield name


def _ignored_state(oracle: Oracle, drawn: Drawn, answer: Answer) -> Iterator[str]:
    """Names of parameters and buffers whose values have no effect on the outputs."""
    kept = oracle.weights
    floats = [name for name, t in kept.items() if t.is_floating_point()]
    for name in floats[:_MOST_STATE]:
        oracle.weights = {**kept, name: kept[name] * 1.5 + 0.25}
        changed = oracle.native(*drawn)
        updated = not same_bits(changed.state[name], oracle.weights[name])
        if not updated and _same(changed, answer, without=name):
            yield name
    oracle.weights = kept


def _same(a: Answer, b: Answer, without: str = "") -> bool:
    outputs = all(same_bits(x, y) for x, y in zip(a.outputs, b.outputs, strict=True))
    return outputs and all(
        same_bits(t, b.state[name]) for name, t in a.state.items() if name != without
    )


def _worst(message: Examine, got: Answer, gold: Answer, native: Answer) -> float:
    """The worst error of `got` against `gold` over the bound; infinite where it is not finite."""
    return max((_ratio(m) for m in _measured(message, got, gold, native)), default=0.0)


def _own(message: Examine, native: Answer, gold: Answer) -> float:
    """The native run's error over the rounding part of the bound alone."""
    return max((_ratio(m) for m in _measured(message, native, gold, gold)), default=0.0)


def _measured(message: Examine, got: Answer, gold: Answer, native: Answer) -> Iterator[Measured]:
    tf32 = message.precision is Precision.TF32
    for i, (one, answer, own) in enumerate(
        zip(got.outputs, gold.outputs, native.outputs, strict=True)
    ):
        rule = rule_for(got.outputs[i].dtype, message.tolerance, tf32=tf32)
        yield measure(f"output {i}", one, answer, own.to(one.dtype), rule)


def _ratio(m: Measured) -> float:
    return float("inf") if m.wrong_finite or m.wrong_exact else m.ratio
