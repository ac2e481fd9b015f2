"""What the reference's worker does: make inputs, weights and answers, and compare with them.

Runs our code and the problem file, never a candidate's. Inputs and answers that comparisons rest on
are kept here, privately: what a candidate was given is the candidate's.
"""

import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from msgspec import structs
from torch import nn

from workbench.gate.candidate_job import invoke
from workbench.gate.compare import Rule, measure, rule_for
from workbench.gate.gold import (
    Answer,
    foreign,
    in_fp64,
    run_reference,
    state_of,
    wide_inputs,
    widened,
)
from workbench.gate.layout import (
    copied,
    entry,
    guards_hold,
    inside,
    raise_guards,
    same_bits,
    write_over,
)
from workbench.gate.nest import Nest, flatten, rebuild, tensor_paths
from workbench.gate.protocol import (
    Compare,
    Compared,
    Draw,
    Expected,
    Fill,
    Made,
    Measured,
    OpenReference,
    Perturb,
    Recheck,
    Rechecked,
    Reference,
    decode,
    encode,
)
from workbench.gate.values import apply_case, perturb_state
from workbench.isolation.context import JobContext
from workbench.isolation.tensors import from_blob, to_blob
from workbench.isolation.wire import Blob
from workbench.problems.module import bind, build_model, reference_flags
from workbench.problems.records import Precision

PROBLEM_FILE = "<problem>"
"""What `problems.module.bind` calls the file in tracebacks."""


class ProblemRaised(Exception):
    """The problem file raised; the text says where, in the person's own lines."""


@contextmanager
def telling(what: str) -> Iterator[None]:
    """Turn whatever the problem file raises in the body into ProblemRaised with its own line."""
    try:
        yield
    except Exception as fault:
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(fault.__traceback__)
            if frame.filename == PROBLEM_FILE
        ]
        at = f" (line {lines[-1]} of the problem file)" if lines else ""
        raise ProblemRaised(f"{what} raises {type(fault).__name__}{at}: {fault}") from fault


class _Call:
    """Inputs and answers of one call, as they were before anybody else saw them."""

    def __init__(self, inputs: list[torch.Tensor], native: Answer, gold: Answer) -> None:
        self.inputs = inputs
        self.native = native
        self.gold = gold


class _Bench:
    """The reference between two jobs."""

    def __init__(self, message: OpenReference, device: str) -> None:
        torch.set_num_threads(message.threads)
        self.message = message
        self.device = device
        with telling("importing the problem"):
            self.module = bind(message.source, message.values)
        with telling("building Model"):
            self.model: nn.Module = build_model(self.module, seed=message.build_seed).to(device)
        self.initial = {name: t.clone() for name, t in state_of(self.model).items()}
        self.weights = {name: t.clone() for name, t in self.initial.items()}
        self.wide: nn.Module | None = None
        self.why_not_fp64 = ""
        self.call: _Call | None = None
        self.lent: list[torch.Tensor] = []
        """Buffers of the candidate's that hold the inputs, with guards; empty on the CPU."""
        self.received: dict[int, list[torch.Tensor]] = {}

    def rule(self, dtype: torch.dtype) -> Rule:
        """C and eps for an output of that dtype."""
        own = {name: (t.factor, t.eps) for name, t in self.message.tolerance.items()}
        return rule_for(dtype, own, tf32=self.message.precision is Precision.TF32)

    def draw(self, seed: int) -> tuple[Nest, list[torch.Tensor]]:
        """`get_inputs()` from `seed`, made on the device where the file names none."""
        torch.manual_seed(seed)
        with telling("get_inputs()"), torch.device(self.device), torch.no_grad():
            nest, tensors = flatten(self.module.get_inputs(), foreign)
        return nest, [t.detach().to(self.device) for t in tensors]

    def answer(self, nest: Nest, inputs: list[torch.Tensor]) -> _Call:
        """Native and fp64 answers for private `inputs`, each from the weights as they were put."""
        _load(self.model, self.weights)
        with telling("the reference"), reference_flags(self.message.precision):
            native = run_reference(
                self.model,
                [copied(t) for t in inputs],
                lambda given: invoke(self.model, rebuild(nest, given)),
            )
        gold = self._gold(nest, inputs, native)
        return _Call(inputs, native, gold)

    def _gold(self, nest: Nest, inputs: list[torch.Tensor], native: Answer) -> Answer:
        """The fp64 answer; the native one, and the reason, where there is none."""
        if self.why_not_fp64:
            return native
        try:
            wide = self.wide if self.wide is not None else widened(self.model)
            _load(wide, self.weights)
            with in_fp64():
                gold = run_reference(
                    wide, wide_inputs(inputs), lambda given: invoke(wide, rebuild(nest, given))
                )
        except Exception as fault:  # noqa: BLE001  # any reason: the native answer stands in
            self.why_not_fp64 = f"{type(fault).__name__}: {fault}"[:300]
            return native
        self.wide = wide
        if [t.shape for t in gold.outputs] != [t.shape for t in native.outputs]:
            self.why_not_fp64 = "its outputs have other shapes in float64"
            return native
        return gold


def open_reference(
    bench: JobContext,
    request: dict[str, Any],
    blobs: list[Blob],  # noqa: ARG001  # a job's shape
) -> tuple[dict[str, Any], list[Blob]]:
    """Load the problem at one shape and build its model; answer with the init tensors."""
    reference = _Bench(decode(request, OpenReference), bench.device)
    bench.state["reference"] = reference
    torch.manual_seed(reference.message.build_seed)
    init, tensors = flatten(reference.module.get_init_inputs(), foreign)
    state = tuple(entry(name, t) for name, t in reference.weights.items())
    _, inputs = reference.draw(reference.message.build_seed)
    floats = any(t.is_floating_point() for t in inputs)
    reply = Reference(init=init, state=state, float_inputs=floats)
    return encode(reply), [to_blob(t) for t in tensors]


def perturb(
    bench: JobContext,
    request: dict[str, Any],
    blobs: list[Blob],  # noqa: ARG001  # a job's shape
) -> tuple[dict[str, Any], list[Blob]]:
    """Weights perturbed from their initial values; as blobs where they are not to be lent."""
    reference = _reference(bench)
    _load(reference.model, reference.initial)
    state = state_of(reference.model)
    perturb_state(state, decode(request, Perturb).seed)
    reference.weights = {name: t.clone() for name, t in state.items()}
    return {}, _travelling(reference, list(reference.weights.values()))


def draw(
    bench: JobContext,
    request: dict[str, Any],
    blobs: list[Blob],  # noqa: ARG001  # a job's shape
) -> tuple[dict[str, Any], list[Blob]]:
    """Inputs and answers of one call; the inputs as blobs where they are not to be lent."""
    reference = _reference(bench)
    message = decode(request, Draw)
    nest, drawn = reference.draw(message.seed)
    before = reference.call.inputs if reference.call else None
    inputs = apply_case(message.case, drawn, before, message.seed)
    reference.call = made = reference.answer(nest, inputs)
    reply = Made(
        inputs=nest,
        entries=tuple(entry(p, t) for p, t in zip(tensor_paths(nest), inputs, strict=True)),
        outputs=made.native.nest,
        expected=_expected(made.native),
        changes_state=any(
            not same_bits(t, reference.weights[name]) for name, t in made.native.state.items()
        ),
        fp64=not reference.why_not_fp64,
        why_not_fp64=reference.why_not_fp64,
    )
    return encode(reply), _travelling(reference, inputs)


def fill(
    bench: JobContext, request: dict[str, Any], blobs: list[Blob]
) -> tuple[dict[str, Any], list[Blob]]:
    """Write the inputs of the call, or the weights, into buffers that the candidate lends."""
    reference = _reference(bench)
    lent = [from_blob(blob) for blob in blobs]
    if decode(request, Fill).what == "inputs" and reference.call is not None:
        reference.lent = lent
        _fill(lent, reference.call.inputs)
    else:
        _fill(lent, list(reference.weights.values()))
    return {}, []


def compare(
    bench: JobContext, request: dict[str, Any], blobs: list[Blob]
) -> tuple[dict[str, Any], list[Blob]]:
    """Measure what a call of the candidate left: outputs, then inputs, then state."""
    reference = _reference(bench)
    message = decode(request, Compare)
    made = reference.call
    if made is None:
        raise RuntimeError("there is no call to compare with")
    tensors = [from_blob(b, reference.device) for b in blobs]
    outputs, rest = tensors[: len(made.native.outputs)], tensors[len(made.native.outputs) :]
    if reference.lent:
        after, state = _lent_inputs(reference, made), rest
    else:
        after, state = rest[: len(made.inputs)], rest[len(made.inputs) :]
    measured = _measure_outputs(reference, made, outputs)
    measured += _measure_after(
        reference,
        [f"input {i}" for i in range(len(after))],
        before=made.inputs,
        after=after,
        native=made.native.inputs,
        gold=made.gold.inputs,
    )
    measured += _measure_after(
        reference,
        list(reference.weights),
        before=list(reference.weights.values()),
        after=state,
        native=list(made.native.state.values()),
        gold=list(made.gold.state.values()),
    )
    if message.keep:
        reference.received[message.number] = [t.clone() for t in outputs]
    overrun = [i for i, buffer in enumerate(reference.lent) if not guards_hold(buffer)]
    return encode(Compared(measured=tuple(measured), overrun=tuple(overrun))), []


def recheck(
    bench: JobContext, request: dict[str, Any], blobs: list[Blob]
) -> tuple[dict[str, Any], list[Blob]]:
    """Whether outputs that the candidate still holds have changed since it returned them."""
    reference = _reference(bench)
    was = reference.received[decode(request, Recheck).number]
    now = [from_blob(b, reference.device) for b in blobs]
    changed = [
        f"output {i}" for i, t in enumerate(was) if i >= len(now) or not same_bits(t, now[i])
    ]
    return encode(Rechecked(changed=tuple(changed))), []


def _reference(bench: JobContext) -> _Bench:
    reference = bench.state["reference"]
    if not isinstance(reference, _Bench):
        raise TypeError("the reference is not loaded")
    return reference


def _load(model: nn.Module, weights: dict[str, torch.Tensor]) -> None:
    for name, tensor in state_of(model).items():
        tensor.data.copy_(weights[name])


def _expected(native: Answer) -> tuple[Expected, ...]:
    places = zip(tensor_paths(native.nest), native.outputs, native.aliased, strict=True)
    return tuple(Expected(entry=entry(p, t), aliased=aliased) for p, t, aliased in places)


def _travelling(reference: _Bench, tensors: list[torch.Tensor]) -> list[Blob]:
    """Bytes for the judge to pass on; none on a GPU, where `fill` follows."""
    return [to_blob(t) for t in tensors] if reference.device == "cpu" else []


def _fill(lent: list[torch.Tensor], given: list[torch.Tensor]) -> None:
    """Write tensors into the candidate's guarded buffers and wait until they are there."""
    for buffer, tensor in zip(lent, given, strict=True):
        raise_guards(buffer)
        write_over(inside(buffer, entry("", tensor)), tensor)
    torch.cuda.synchronize()


def _lent_inputs(reference: _Bench, made: _Call) -> list[torch.Tensor]:
    pairs = zip(reference.lent, made.inputs, strict=True)
    return [inside(buffer, entry("", tensor)) for buffer, tensor in pairs]


def _measure_outputs(
    reference: _Bench, made: _Call, outputs: Sequence[torch.Tensor]
) -> list[Measured]:
    return [
        measure(f"output {i}", got, gold, native, reference.rule(native.dtype))
        for i, (got, gold, native) in enumerate(
            zip(outputs, made.gold.outputs, made.native.outputs, strict=True)
        )
    ]


def _measure_after(
    reference: _Bench,
    names: list[str],
    *,
    before: list[torch.Tensor],
    after: list[torch.Tensor],
    native: list[torch.Tensor],
    gold: list[torch.Tensor],
) -> list[Measured]:
    """Inputs or state after the call: what the reference changes is measured, the rest is kept."""
    found = []
    for name, was, now, own, answer in zip(names, before, after, native, gold, strict=True):
        kept, untouched = same_bits(was, own), same_bits(was, now)
        if kept and untouched:
            continue
        what = f"{name} after the call"
        measured = measure(what, now, answer, own, reference.rule(own.dtype))
        found.append(structs.replace(measured, kept=kept, untouched=untouched))
    return found
