"""Describes a shape's arguments for the kernel jobs, without their contents."""

from collections.abc import Sequence

from workbench.gate.correctness.nest import Branch, ForeignLeaf, Nest, PlainLeaf
from workbench.gate.correctness.protocol import TensorEntry
from workbench.gate.problem.records import ShapeReport
from workbench.kernels.requests import BranchSpec, PlainSpec, Spec, TensorSpec


class NoSpec(Exception):
    """The shape cannot be described; the text says why."""


def init_specs(shape: ShapeReport) -> tuple[Spec, ...]:
    """Arguments of `ModelNew`. Raises NoSpec."""
    return _arguments(shape, shape.init, shape.init_entries)


def input_specs(shape: ShapeReport) -> tuple[Spec, ...]:
    """Arguments of the call. Raises NoSpec."""
    return _arguments(shape, shape.inputs, shape.input_entries)


def _arguments(
    shape: ShapeReport, nest: Nest | None, entries: Sequence[TensorEntry]
) -> tuple[Spec, ...]:
    if nest is None:
        raise NoSpec(shape.unseen or f"shape {shape.shape} was not seen")
    if not isinstance(nest, Branch) or nest.kind == "dict":
        raise NoSpec("the arguments are not a list")
    return tuple(_spec(item, entries) for item in nest.items)


def _spec(nest: Nest, entries: Sequence[TensorEntry]) -> Spec:
    if isinstance(nest, Branch):
        items = tuple(_spec(item, entries) for item in nest.items)
        return BranchSpec(kind=nest.kind, items=items, keys=nest.keys)
    if isinstance(nest, PlainLeaf):
        return PlainSpec(kind=nest.kind, value=nest.value)
    if isinstance(nest, ForeignLeaf):
        raise NoSpec(f"an argument is {nest.says}")
    entry = entries[nest.index]
    return TensorSpec(dtype=entry.dtype, shape=entry.shape, strides=entry.strides)
