"""The gate's settings, and what it reports while it works."""

from collections.abc import Callable

from msgspec import Struct

from workbench.gate.records import Stage, StageReport
from workbench.kernels.records import KernelCode


class GateSettings(Struct, frozen=True, kw_only=True):
    """How thoroughly the gate checks."""

    target: str
    """`sm90`."""
    device: str = "cpu"
    """Name of the GPU, or `cpu`."""
    device_index: int | None = None
    rung: int = 2
    """0: policy, compile, profile; 1: correctness at the smallest shape too; 2: at more shapes;
    3: under compute-sanitizer too."""
    seed: bytes = b""
    """Seed of everything that is drawn; if empty, the system provides one."""
    threshold: float = 1.01
    """Speedup above which a gain counts (gate protocol, section 9)."""
    trace_seconds: float = 90.0
    """A modeled time that takes longer than this to trace is given up, and is unproven (ours)."""


class Told(Struct, frozen=True):
    """Progress of the gate: a stage began, advanced, or ended."""

    stage: Stage
    report: StageReport | None = None
    done: int = 0
    total: int = 0
    says: str = ""
    code: tuple[KernelCode, ...] = ()
    """What compile made, once it has ended."""


Listen = Callable[[Told], None]
