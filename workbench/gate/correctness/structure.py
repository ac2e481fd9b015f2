"""Whether a candidate's results have the reference's structure. Pure: rules of the judge.

Nesting, dtypes, shapes and lengths are read from the blobs that arrived. Overlaps, storage and
device are claims by the worker: enough against a careless kernel, and backed by comparing held
outputs again at the end.
"""

from collections.abc import Sequence

from workbench.gate.correctness.asking import blame
from workbench.gate.correctness.nest import PlainLeaf, aligned, difference, leaves
from workbench.gate.correctness.protocol import Expected, Made, OutputFacts, Returned, TensorEntry
from workbench.gate.records import Finding
from workbench.isolation.wire import Blob


def check_structure(
    made: Made, returned: Returned, blobs: Sequence[Blob], device: str
) -> list[Finding]:
    """What is wrong with the outputs' structure; empty when it is the reference's.

    `blobs` begin with the outputs in the candidate's order; `device` is the expected device.
    """
    if returned.outputs is None:
        return [blame("wrong-structure", "the candidate returned nothing")]
    found = difference(made.outputs, returned.outputs)
    if found:
        return [blame("wrong-structure", f"forward returns {found}")]
    findings = _check_plain(made, returned)
    places = aligned(made.outputs, returned.outputs)
    if len(returned.facts) != len(places) or len(blobs) < len(places):
        return [blame("wrong-structure", "the outputs did not all arrive")]
    numbers = {place: number for number, place in enumerate(places)}
    for number, (expected, place) in enumerate(zip(made.expected, places, strict=True)):
        facts, blob = returned.facts[place], blobs[place]
        if facts.device != device:
            says = f"output {number} is on {facts.device}, the inputs are on {device}"
            findings.append(blame("wrong-device", says, value=facts.device, bound=device))
        else:
            findings += _check_one(number, expected, facts, blob)
        others = {numbers.get(other, number) for other in facts.beside}
        findings += _check_beside(number, others - {number}, made.expected)
    return findings


def check_state(want: Sequence[TensorEntry], got: Sequence[TensorEntry]) -> list[Finding]:
    """Why the candidate's state_dict cannot take the reference's weights; empty if it can.

    Every name of the reference must exist with its shape and dtype; the candidate may have more,
    such as workspaces registered as buffers, which are left alone.
    """
    theirs = {entry.name: entry for entry in got}
    missing = [entry.name for entry in want if entry.name not in theirs]
    if missing:
        has = ", ".join(theirs) or "nothing"
        says = f"state_dict lacks {', '.join(missing[:5])} of the reference's; it has {has}"
        return [blame("state-dict-differs", says[:400])]
    for entry in want:
        mine = theirs[entry.name]
        if (mine.shape, mine.dtype) != (entry.shape, entry.dtype):
            says = (
                f"{entry.name} in state_dict is {mine.dtype} {_shape(mine.shape)}, "
                f"the reference's is {entry.dtype} {_shape(entry.shape)}"
            )
            return [blame("state-dict-differs", says)]
    return []


def outputs_in_order(made: Made, returned: Returned, blobs: Sequence[Blob]) -> list[Blob]:
    """The blobs with the outputs in the reference's order; structure must have been checked."""
    if returned.outputs is None:
        return list(blobs)
    places = aligned(made.outputs, returned.outputs)
    return [blobs[place] for place in places] + list(blobs[len(places) :])


def _check_plain(made: Made, returned: Returned) -> list[Finding]:
    """Plain outputs must equal the reference's; floats to a relative 1e-6 (ours)."""
    theirs = {} if returned.outputs is None else dict(leaves(returned.outputs))
    findings = []
    for path, leaf in leaves(made.outputs):
        if not isinstance(leaf, PlainLeaf):
            continue
        got = theirs[path]
        value = got.value if isinstance(got, PlainLeaf) else None
        near = leaf.value == value
        if isinstance(leaf.value, float) and isinstance(value, float):
            near = abs(leaf.value - value) <= 1e-6 * abs(leaf.value)
        if not near:
            says = f"output `{path}` is {value!r}, the reference's is {leaf.value!r}"
            findings.append(blame("error-above-bound", says))
    return findings


def _check_one(number: int, expected: Expected, facts: OutputFacts, blob: Blob) -> list[Finding]:
    want, output = expected.entry, f"output {number}"
    if blob.dtype != want.dtype:
        says = f"{output} is {blob.dtype}, the reference's is {want.dtype}"
        return [blame("wrong-dtype", says, value=blob.dtype, bound=want.dtype)]
    if blob.shape != want.shape:
        says = f"{output} has shape {_shape(blob.shape)}, the reference's has {_shape(want.shape)}"
        return [blame("wrong-shape", says, value=_shape(blob.shape), bound=_shape(want.shape))]
    if facts.offset_bytes + blob.span_bytes() > facts.storage_bytes:
        return [blame("wrong-structure", f"{output} reaches past its own storage")]
    return _check_overlaps(output, expected, facts)


def _check_overlaps(output: str, expected: Expected, facts: OutputFacts) -> list[Finding]:
    findings = []
    for owner in facts.overlaps:
        if owner.startswith("input"):
            code = "aliases-input"
        elif owner.startswith("the state"):
            code = "aliases-state"
        else:
            code = "aliases-earlier-output"
        if expected.aliased:
            continue  # earlier outputs overlap too then, through the input they share
        findings.append(blame(code, f"{output} lies in the memory of {owner}"))
    return findings


def _check_beside(number: int, others: set[int], expected: Sequence[Expected]) -> list[Finding]:
    """Outputs of one call that share memory where the reference's do not."""
    return [
        blame("aliases-output", f"output {number} lies in the memory of output {other}")
        for other in sorted(others)
        if other not in expected[number].beside and number not in expected[other].beside
    ]


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"
