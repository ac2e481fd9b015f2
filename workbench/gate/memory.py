"""How much memory a candidate may allocate, and findings for those that exceed it. Pure."""

from workbench.gate.correctness.protocol import Raised, Reference
from workbench.gate.records import Blame, Evidence, Finding
from workbench.isolation.gpumemory import DeviceUse
from workbench.isolation.outcome import WorkerDied

TIMES_REFERENCE, SPARE_BYTES = 3, 2 << 30
"""Gate protocol, section 10: three times the reference's peak and 2 GB."""


def device_budget(reference: Reference, held_calls: int = 0) -> int:
    """GPU memory that a candidate may allocate at a shape, bytes.

    Includes the outputs of `held_calls` calls, which the protocol itself keeps in its worker.
    """
    peak = TIMES_REFERENCE * reference.peak_bytes
    return peak + SPARE_BYTES + held_calls * reference.output_bytes


def too_much(raised: Raised, doing: str, use: DeviceUse | None) -> Finding | None:
    """The finding for a candidate whose allocation failed; None for any other error.

    `use` is what the driver reports: where other processes hold so much of the GPU's memory that
    the candidate's budget was not available, the machine is to blame.
    """
    if raised.kind == "OutOfMemoryError":
        if use is not None and use.starved:
            return _starved(use, raised.line)
        says = f"{doing} asks for more GPU memory than {_allowed(use)}: {raised.message}"
        evidence: Evidence = (
            {} if use is None else {"held_bytes": use.held, "limit_bytes": use.limit}
        )
        return Finding(
            code="correctness.gpu-memory", says=says[:600], line=raised.line, evidence=evidence
        )
    if raised.kind == "MemoryError" or "DefaultCPUAllocator" in raised.message:
        says = f"{doing} asks for more host memory than it may have: {raised.message}"
        return Finding(code="correctness.host-memory", says=says[:600], line=raised.line)
    return None


def over_limit(fault: WorkerDied) -> Finding | None:
    """The finding for a worker that the memory watchdog ended; None for any other end."""
    kind = {"gpu memory limit": "gpu", "memory limit": "host"}.get(fault.how)
    if kind is None or fault.held is None or fault.limit is None:
        return None
    where = "on the GPU" if kind == "gpu" else "of host memory"
    says = f"it holds {_gib(fault.held)} {where} and may have {_gib(fault.limit)}"
    return Finding(
        code=f"correctness.{kind}-memory",
        says=says,
        evidence={"held_bytes": fault.held, "limit_bytes": fault.limit},
    )


def _starved(use: DeviceUse, line: int | None) -> Finding:
    says = (
        f"the GPU is full: {_gib(use.free or 0)} are free, and the candidate, which holds "
        f"{_gib(use.held or 0)}, may have {_gib(use.limit)}"
    )
    return Finding(
        code="correctness.gpu-full",
        says=says,
        line=line,
        blame=Blame.MACHINE,
        evidence={"needs": "a GPU whose memory others leave free", "free_bytes": use.free},
    )


def _allowed(use: DeviceUse | None) -> str:
    return "it may have" if use is None else f"the {_gib(use.limit)} it may have"


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.2f} GiB"
