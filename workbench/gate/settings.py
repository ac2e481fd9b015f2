"""The gate's settings, and what it reports while it works."""

from collections.abc import Callable

from msgspec import Struct

from workbench.gate.records import Stage, StageReport
from workbench.kernels.records import KernelCode


class GateSettings(Struct, frozen=True, kw_only=True):
    """How hard the gate looks."""

    target: str
    """`sm90`."""
    device: str = "cpu"
    """Name of the GPU, or `cpu`."""
    device_index: int | None = None
    rung: int = 2
    """0: policy, compile, profile; 1: correctness at the smallest shape too; 2: at more shapes;
    3: under compute-sanitizer too."""
    seed: bytes = b""
    """Seed of everything that is drawn; if empty, one is taken from the system."""
    threshold: float = 1.01
    """A gain counts beyond this (gate protocol, section 9)."""


class Told(Struct, frozen=True):
    """What the gate says while it works: a stage began, came further, or ended."""

    stage: Stage
    report: StageReport | None = None
    done: int = 0
    total: int = 0
    says: str = ""
    code: tuple[KernelCode, ...] = ()
    """When compile ended: what it made."""


Listen = Callable[[Told], None]
