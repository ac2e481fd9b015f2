"""What a worker is asked of a candidate's launches, and what it answers: msgpack-able records."""

from typing import Literal

from msgspec import Struct

from workbench.kernels.records import HostOperation, KernelCode, Launch, LaunchTrace


class TensorSpec(Struct, frozen=True, kw_only=True, tag="tensor"):
    """A tensor without its contents; zeros stand for them."""

    dtype: str
    """Without the `torch.` prefix."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements."""


class PlainSpec(Struct, frozen=True, kw_only=True, tag="plain"):
    """A value that is no tensor; `dtype` and `device` are torch's, by name."""

    kind: Literal["none", "bool", "int", "float", "str", "dtype", "device"]
    value: bool | int | float | str | None = None


class BranchSpec(Struct, frozen=True, kw_only=True, tag="branch"):
    """A tuple, list or dict of values; `keys` are a dict's."""

    kind: Literal["tuple", "list", "dict"]
    items: tuple["Spec", ...]
    keys: tuple[str, ...] = ()


Spec = TensorSpec | PlainSpec | BranchSpec


class LaunchRequest(Struct, frozen=True, kw_only=True):
    """One call of a candidate at one shape."""

    source: str
    """Text of the candidate."""
    target: str
    """`sm90`."""
    init: tuple[Spec, ...]
    """Arguments of `ModelNew`."""
    inputs: tuple[Spec, ...]
    """Arguments of the call."""


class TraceRequest(LaunchRequest, frozen=True, kw_only=True):
    """The same call, interpreted."""

    sample: int | None = 8
    """Programs of each launch; None runs them all."""
    sample_seed: int = 0
    """Which ones; the judge's secret."""
    work: int | None = 16_000_000
    """After so much a launch starts no further program; see `tracing`. About 4 s of one core."""
    configs: dict[str, int] = {}
    """As `Recorded.configs` has it."""


class Fault(Struct, frozen=True, kw_only=True):
    """A `kernels.faults` fault as data."""

    kind: Literal["compile-failed", "too-large", "out-of-bounds", "cannot-judge", "kernel-raised"]
    what: str
    todo: str
    kernel: str
    line: int
    """In the candidate's file; 0 when not known."""
    details: dict[str, str | int] = {}
    """`resource`, `required`, `limit` of a kernel that is too large; `argument`, `access`, `lanes`,
    `offset_bytes` of an access out of bounds."""


class Recorded(Struct, frozen=True, kw_only=True):
    """Answer of `jobs.record`. With a fault, what was launched before it."""

    launches: tuple[Launch, ...] = ()
    host: tuple[HostOperation, ...] = ()
    """Torch operations of the call that move data beside the kernels."""
    configs: dict[str, int] = {}
    """Which configuration of an autotuned kernel was recorded."""
    toolchain: dict[str, str] = {}
    """Versions that the exact numbers hold for."""
    code: tuple[KernelCode, ...] = ()
    """Of each launched kernel once."""
    fault: Fault | None = None


class Traced(Struct, frozen=True, kw_only=True):
    """Answer of `jobs.trace`. With a fault, what was traced before it."""

    traces: tuple[LaunchTrace, ...] = ()
    fault: Fault | None = None
    compared: bool = False
    """Some of every output was held against the reference; the judge's word, not the worker's."""
