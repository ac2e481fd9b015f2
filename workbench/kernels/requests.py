"""Requests to a worker about a candidate's launches, and its answers."""

from typing import Literal

from msgspec import Struct

from workbench.kernels.records import Build, HostOperation, KernelCode, Launch, LaunchTrace


class TensorSpec(Struct, frozen=True, kw_only=True, tag="tensor"):
    """A tensor without its contents."""

    dtype: str
    """Name without the `torch.` prefix: `float32`."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """Strides in elements."""


class PlainSpec(Struct, frozen=True, kw_only=True, tag="plain"):
    """A value that is not a tensor; torch's dtypes and devices are given by name."""

    kind: Literal["none", "bool", "int", "float", "str", "dtype", "device"]
    value: bool | int | float | str | None = None


class BranchSpec(Struct, frozen=True, kw_only=True, tag="branch"):
    """A tuple, list or dict of values; `keys` belong to a dict."""

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
    disassembled: bool = True
    """Whether the launches' instructions and texts are asked for, too."""


class TraceRequest(LaunchRequest, frozen=True, kw_only=True):
    """The same call, interpreted."""

    sample: int | None = 8
    """Programs to run of each launch; None runs them all."""
    sample_seed: int = 0
    """Seed that selects them; the judge's secret."""
    work: int | None = 16_000_000
    """Work after which a launch starts no further program; see `tracing`. Some 4 s of one core."""
    configs: dict[str, int] = {}
    """The configuration to use of each autotuned kernel, as in `Recorded.configs`."""
    builds: tuple[Build, ...] = ()
    """What host code that compiles ahead is told, as in `Recorded.builds`."""


class Fault(Struct, frozen=True, kw_only=True):
    """A `kernels.faults` fault as data."""

    kind: Literal["compile-failed", "too-large", "out-of-bounds", "cannot-judge", "kernel-raised"]
    what: str
    todo: str
    kernel: str
    line: int
    """Line in the candidate's file; 0 when unknown."""
    details: dict[str, str | int] = {}
    """`resource`, `required`, `limit` of a kernel that is too large; `argument`, `access`, `lanes`,
    `offset_bytes` of an access out of bounds."""


class Recorded(Struct, frozen=True, kw_only=True):
    """Answer of `jobs.record`; with a fault, it holds what was launched before."""

    launches: tuple[Launch, ...] = ()
    host: tuple[HostOperation, ...] = ()
    """Torch operations of the call that move data beside the kernels."""
    configs: dict[str, int] = {}
    """Index of the recorded configuration of each autotuned kernel, by name."""
    toolchain: dict[str, str] = {}
    """Versions for which the exact numbers hold."""
    code: tuple[KernelCode, ...] = ()
    """Generated code of the launched kernels, each once."""
    builds: tuple[Build, ...] = ()
    """Kernels that host code compiled ahead of their launch, in either call."""
    fault: Fault | None = None


class Traced(Struct, frozen=True, kw_only=True):
    """Answer of `jobs.trace`; with a fault, it holds what was traced before."""

    traces: tuple[LaunchTrace, ...] = ()
    fault: Fault | None = None
    compared: bool = False
    """Whether some of every output was compared with the reference; set by the judge."""
