"""The jobs of the reference's worker: make inputs, weights and answers, and compare with them.

Runs our code and the problem file, never a candidate's. The inputs and answers that comparisons
rely on are private copies: a candidate may change what it was given.
"""

from collections.abc import Sequence
from typing import Any

import torch
from msgspec import structs

from workbench.gate.correctness.cases import ORDERED, SHRUNK, SPECIAL, STRAINED, Case
from workbench.gate.correctness.compare import Rule, measure, rule_for
from workbench.gate.correctness.comparing import Answered, Comparison, Kind, Plain
from workbench.gate.correctness.gold import Answer
from workbench.gate.correctness.layout import (
    entry,
    guards_hold,
    inside,
    laid_out,
    raise_guards,
    same_bits,
    write_over,
)
from workbench.gate.correctness.nest import Nest, tensor_paths
from workbench.gate.correctness.oracle import Oracle
from workbench.gate.correctness.products import cut
from workbench.gate.correctness.protocol import (
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
from workbench.gate.correctness.values import FACTORS, apply_case, rounded
from workbench.gate.problem.code import init_arguments
from workbench.isolation.context import JobContext
from workbench.isolation.tensors import from_blob, to_blob
from workbench.isolation.wire import Blob
from workbench.problems.records import Precision


class Bench:
    """The reference between two jobs."""

    def __init__(self, message: OpenReference, device: str) -> None:
        torch.set_num_threads(message.threads)
        self.message = message
        self.oracle = Oracle(
            message.source,
            message.values,
            seed=message.build_seed,
            precision=message.precision,
            device=device,
        )
        self.call: Answered | None = None
        self.lent: list[torch.Tensor] = []
        """Buffers of the candidate that hold the inputs, with guards; empty on the CPU."""
        self.received: dict[int, list[torch.Tensor | None]] = {}
        """Outputs by call; None for one that lies in an input, which later calls overwrite."""

    @property
    def device(self) -> str:
        """The device of all tensors."""
        return self.oracle.device

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        """The weights that the candidate was given."""
        return self.oracle.weights

    def rule(self, dtype: torch.dtype) -> Rule:
        """C and eps for an output of that dtype, in the call whose answers are kept."""
        tf32 = self.message.precision is Precision.TF32
        rule = rule_for(dtype, self.message.tolerance, tf32=tf32)
        if self.call is None or self.device == "cpu":
            # The interpreter rounds its sums.
            return rule
        return cut(rule, dtype, self.call.native.longest)


def open_reference(
    bench: JobContext,
    request: dict[str, Any],
    blobs: list[Blob],  # noqa: ARG001 -- a job's shape
) -> tuple[dict[str, Any], list[Blob]]:
    """Load the problem at one shape and build its model; answer with the init tensors."""
    reference = Bench(decode(request, OpenReference), bench.device)
    bench.state["reference"] = reference
    init, tensors = init_arguments(reference.oracle.module, reference.message.build_seed)
    state = tuple(entry(name, t) for name, t in reference.weights.items())
    nest, inputs = reference.oracle.draw(reference.message.build_seed)
    floats = any(rounded(t) for t in inputs)
    peak, made = (0, 0) if bench.device == "cpu" else reference.oracle.memory(nest, inputs)
    reply = Reference(
        init=init, state=state, float_inputs=floats, peak_bytes=peak, output_bytes=made
    )
    return encode(reply), [to_blob(t) for t in tensors]


def perturb(
    bench: JobContext,
    request: dict[str, Any],
    blobs: list[Blob],  # noqa: ARG001 -- a job's shape
) -> tuple[dict[str, Any], list[Blob]]:
    """Weights perturbed from their initial values; as blobs where they are not to be lent."""
    reference = reference_of(bench)
    reference.oracle.perturb(decode(request, Perturb).seed)
    return {}, travelling(reference, list(reference.weights.values()))


def draw(
    bench: JobContext,
    request: dict[str, Any],
    blobs: list[Blob],  # noqa: ARG001 -- a job's shape
) -> tuple[dict[str, Any], list[Blob]]:
    """Inputs and answers of one call; the inputs as blobs where they are not to be lent."""
    reference = reference_of(bench)
    message = decode(request, Draw)
    nest, drawn = reference.oracle.draw(message.seed)
    before = reference.call.inputs if reference.call else None
    inputs = apply_case(message.case, drawn, before, message.seed)
    if message.layout is not None:
        inputs = [laid_out(t, message.layout) if t.is_floating_point() else t for t in inputs]
    shrunk = message.case in SHRUNK
    plain = Plain(drawn, FACTORS[message.case]) if shrunk else None
    reply = answer(reference, nest, inputs, kind_of(message.case), plain)
    return encode(reply), travelling(reference, inputs)


def fill(
    bench: JobContext, request: dict[str, Any], blobs: list[Blob]
) -> tuple[dict[str, Any], list[Blob]]:
    """Write the inputs of the call, or the weights, into buffers that the candidate lends."""
    reference = reference_of(bench)
    lent = [from_blob(blob) for blob in blobs]
    if decode(request, Fill).what == "inputs" and reference.call is not None:
        reference.lent = lent
        fill_buffers(lent, reference.call.inputs)
    else:
        fill_buffers(lent, list(reference.weights.values()))
    return {}, []


def compare(
    bench: JobContext, request: dict[str, Any], blobs: list[Blob]
) -> tuple[dict[str, Any], list[Blob]]:
    """Measure the results of a candidate's call: outputs, then inputs, then state."""
    reference = reference_of(bench)
    message = decode(request, Compare)
    made = reference.call
    if made is None:
        raise RuntimeError("there is no call to compare with")
    tensors = [from_blob(b, reference.device) for b in blobs]
    outputs, rest = tensors[: len(made.native.outputs)], tensors[len(made.native.outputs) :]
    if reference.message.lends:
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
        own = zip(outputs, made.native.aliased, strict=True)
        reference.received[message.number] = [None if a else t.clone() for t, a in own]
    overrun = [i for i, buffer in enumerate(reference.lent) if not guards_hold(buffer)]
    return encode(Compared(measured=tuple(measured), overrun=tuple(overrun))), []


def recheck(
    bench: JobContext, request: dict[str, Any], blobs: list[Blob]
) -> tuple[dict[str, Any], list[Blob]]:
    """Whether outputs that the candidate still holds have changed since it returned them."""
    reference = reference_of(bench)
    was = reference.received[decode(request, Recheck).number]
    now = [from_blob(b, reference.device) for b in blobs]
    changed = [
        f"output {i}"
        for i, (old, new) in enumerate(zip(was, now, strict=True))
        if old is not None and not same_bits(old, new)
    ]
    return encode(Rechecked(changed=tuple(changed))), []


def kind_of(case: Case) -> Kind:
    """What a case's inputs are to whoever compares."""
    if case in {Case.FRESH, Case.KEPT_ENDS, Case.EDITED}:
        return Kind.DRAWN
    if case is Case.ONES:
        return Kind.ONES
    if case in SPECIAL:
        return Kind.SPECIAL
    return Kind.STRAINED if case in (*ORDERED, *STRAINED) else Kind.CHANGED


def answer(
    reference: Bench,
    nest: Nest,
    inputs: list[torch.Tensor],
    kind: Kind = Kind.DRAWN,
    plain: Plain | None = None,
) -> Made:
    """Compute the answers to inputs, and keep both for comparisons; `plain` are the inputs of a
    call on shrunk ones before.
    """
    native = reference.oracle.native(nest, inputs)
    gold = reference.oracle.gold(nest, inputs, native)
    reference.call = Answered(nest, inputs, native, gold, kind, plain)
    return Made(
        inputs=nest,
        entries=tuple(entry(p, t) for p, t in zip(tensor_paths(nest), inputs, strict=True)),
        outputs=native.nest,
        expected=_expected(native),
        changes_state=any(
            not same_bits(t, reference.weights[name]) for name, t in native.state.items()
        ),
        fp64=not reference.oracle.why_not_fp64,
        why_not_fp64=reference.oracle.why_not_fp64,
    )


def reference_of(bench: JobContext) -> Bench:
    """The reference that `open_reference` loaded."""
    reference = bench.state["reference"]
    if not isinstance(reference, Bench):
        raise TypeError("the reference is not loaded")
    return reference


def _expected(native: Answer) -> tuple[Expected, ...]:
    told = zip(native.aliased, native.beside, strict=True)
    return tuple(
        Expected(entry=entry(path, tensor), aliased=aliased, beside=beside)
        for path, tensor, (aliased, beside) in zip(
            tensor_paths(native.nest), native.outputs, told, strict=True
        )
    )


def travelling(reference: Bench, tensors: list[torch.Tensor]) -> list[Blob]:
    """Bytes for the judge to pass on; none where buffers are lent and `fill` follows."""
    return [] if reference.message.lends else [to_blob(t) for t in tensors]


def fill_buffers(lent: list[torch.Tensor], given: list[torch.Tensor]) -> None:
    """Write tensors into the candidate's guarded buffers and wait until they are written."""
    for buffer, tensor in zip(lent, given, strict=True):
        raise_guards(buffer)
        write_over(inside(buffer, entry("", tensor)), tensor)
    torch.cuda.synchronize()


def _lent_inputs(reference: Bench, made: Answered) -> list[torch.Tensor]:
    pairs = zip(reference.lent, made.inputs, strict=True)
    return [inside(buffer, entry("", tensor)) for buffer, tensor in pairs]


def _measure_outputs(
    reference: Bench, made: Answered, outputs: Sequence[torch.Tensor]
) -> list[Measured]:
    comparison = Comparison(
        made,
        rule=reference.rule,
        selections=reference.message.selections,
        oracle=reference.oracle,
    )
    return comparison.measured(outputs)


def _measure_after(
    reference: Bench,
    names: list[str],
    *,
    before: list[torch.Tensor],
    after: list[torch.Tensor],
    native: list[torch.Tensor],
    gold: list[torch.Tensor],
) -> list[Measured]:
    """Inputs or state after the call: what the reference changes is compared, the rest must be
    unchanged.
    """
    found = []
    for name, was, now, own, answer in zip(names, before, after, native, gold, strict=True):
        kept, untouched = same_bits(was, own), same_bits(was, now)
        if kept and untouched:
            continue
        what = f"{name} after the call"
        measured = measure(what, now, answer, own, reference.rule(own.dtype))
        found.append(structs.replace(measured, kept=kept, untouched=untouched))
    return found
