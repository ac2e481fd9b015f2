"""Whether a candidate does the work at the full shape that was shown to be right at the smallest.

Without a GPU only small shapes are compared with the reference, while the time is modeled at the
full one: a candidate that computes only where it is checked would look fast. These are necessary
conditions, counted lane by lane in the interpreter; one that fails makes the stage unproven.
"""

import math
from collections.abc import Sequence

from workbench.gate.correctness.protocol import TensorEntry
from workbench.gate.problem.records import ShapeReport
from workbench.gate.records import Evidence, Finding
from workbench.kernels.records import HostOperation, LaunchTrace

COVERED = 0.5
"""Share of the outputs' bytes that must be written: counts are scaled from a sample of programs,
and programs at the edges write less (ours)."""
READ = 0.8
"""Bytes read, relative to the smallest shape, each byte once; the margin is for scaled samples
(ours)."""
WORKED = 0.25
"""Operations per byte read, relative to the smallest shape, without masked lanes (ours)."""


def doubt_at_full(
    full: ShapeReport,
    traces: Sequence[LaunchTrace],
    host: Sequence[HostOperation],
    smallest: ShapeReport,
    small_traces: Sequence[LaunchTrace],
    *,
    compared: bool = False,
) -> Finding | None:
    """Why the full shape is in doubt; None when it writes, reads and computes in proportion.

    `traces` and `host` are of the call at `full`, `small_traces` of the call at `smallest`. With
    `compared`, some of every output was compared with the reference at the full shape, including
    what loops carry from one iteration to the next.
    """
    if full.shape == smallest.shape:
        return None
    outputs = sum(map(dense_bytes, full.output_entries))
    written = _stored(traces) + sum(operation.bytes for operation in host)
    if written < COVERED * outputs:
        return _doubt(full, "writes", written, outputs, "bytes of its outputs")
    other = _other_arithmetic(full, traces, small_traces)
    if other is None and not compared:
        other = _unproven_loop(full, traces, small_traces)
    if other is not None:
        return other
    least_read = READ * min(1.0, _read(small_traces) / max(_taken(smallest), 1.0)) * _taken(full)
    if _read(traces) < least_read:
        return _doubt(full, "reads", _read(traces), least_read, "bytes that it must")
    least_work = WORKED * _density(small_traces) * _loaded(traces)
    done = sum(map(_operations, traces))
    if done < least_work:
        return _doubt(full, "does", done, least_work, "operations that it must")
    return None


def _doubt(full: ShapeReport, verb: str, got: float, least: float, of_what: str) -> Finding:
    says = (
        f"at shape {full.shape} it {verb} {got:.3g} of the {least:.3g} {of_what}, going by the "
        "smallest shape; whether it is right there needs a GPU"
    )
    evidence: Evidence = {"got": float(got), "least": float(least)}
    return Finding(code="profile.does-less-at-full", says=says, evidence=evidence)


def _other_arithmetic(
    full: ShapeReport, traces: Sequence[LaunchTrace], small: Sequence[LaunchTrace]
) -> Finding | None:
    """Matrix products in a precision that was never compared with the reference."""
    shown = {pipe for trace in small for pipe in trace.dot_flops}
    new = sorted({pipe for trace in traces for pipe in trace.dot_flops} - shown)
    if not new:
        return None
    says = (
        f"at shape {full.shape} it multiplies in {', '.join(new)}, at the smallest in "
        f"{', '.join(sorted(shown)) or 'nothing'}; whether it is right there needs a GPU"
    )
    return Finding(code="profile.other-arithmetic-at-full", says=says)


def _unproven_loop(
    full: ShapeReport, traces: Sequence[LaunchTrace], small: Sequence[LaunchTrace]
) -> Finding | None:
    """A loop that repeats at the full shape and never did where outputs were compared."""
    turned = {trace.kernel for trace in small if trace.loads > trace.load_places}
    for trace in traces:
        if trace.loads > trace.load_places and trace.kernel not in turned:
            says = (
                f"at shape {full.shape} the loops of {trace.kernel} go round, at the smallest they "
                "run once: what they carry from trip to trip was never compared with the reference"
            )
            evidence: Evidence = {"loads": trace.loads, "places": trace.load_places}
            return Finding(code="profile.loop-not-proven", says=says, evidence=evidence)
    return None


def dense_bytes(entry: TensorEntry) -> float:
    """Bytes of a tensor's elements, without gaps between them."""
    count = math.prod(entry.shape)
    if not count:
        return 0.0
    span = 1 + sum((n - 1) * s for n, s in zip(entry.shape, entry.strides, strict=True))
    return entry.bytes * min(1.0, count / span)


def _taken(shape: ShapeReport) -> float:
    """Bytes of the inputs and of the state."""
    return sum(map(dense_bytes, (*shape.input_entries, *shape.state)))


def _loaded(traces: Sequence[LaunchTrace]) -> float:
    return float(sum(part.loaded for trace in traces for part in trace.traffic.values()))


def _scale(trace: LaunchTrace) -> float:
    return trace.programs / max(trace.sampled, 1)


_SECTOR = 32


def _read(traces: Sequence[LaunchTrace]) -> float:
    """Bytes read, repeated reads by one launch counted once; never below the true number."""
    return sum(
        min(part.loaded, _SECTOR * (part.unique_sectors - part.stored_sectors) * _scale(trace))
        if part.loaded and part.unique_sectors > part.stored_sectors
        else part.loaded
        for trace in traces
        for part in trace.traffic.values()
    )


def _stored(traces: Sequence[LaunchTrace]) -> float:
    """Bytes written, repeated writes by one launch counted once; never below the true number."""
    return sum(
        min(part.stored, _SECTOR * part.stored_sectors * _scale(trace))
        for trace in traces
        for part in trace.traffic.values()
    )


def _operations(trace: LaunchTrace) -> float:
    """Arithmetic operations of one launch, masked lanes included."""
    dots = sum(trace.dot_flops.values())
    return dots + trace.vector_flops + trace.special_ops + trace.reduced_elements


def _density(traces: Sequence[LaunchTrace]) -> float:
    """Operations per byte read, as if no lane were masked."""
    useful = sum(_operations(trace) * (1.0 - trace.masked_fraction) for trace in traces)
    return useful / max(_loaded(traces), 1.0)
