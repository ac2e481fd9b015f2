"""Confine this process, layer by layer, and say honestly which layers took."""

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from workbench.isolation import landlock, namespaces, seccomp
from workbench.isolation.grants import common_grants
from workbench.isolation.landlock import Grant
from workbench.isolation.records import Layer
from workbench.isolation.syscalls import drop_capabilities, prctl

_PR_SET_NO_NEW_PRIVS = 38

LANDLOCK, SECCOMP, BUBBLEWRAP = "landlock", "seccomp", "bubblewrap"
PID_NAMESPACE = namespaces.NAMES[namespaces.PROCESSES]


class Confinement(Struct, frozen=True, kw_only=True):
    """What a flavor's workers are left with."""

    roots: tuple[str, ...]
    """The toolchain, see `grants.toolchain`."""
    hidden: tuple[str, ...] = ()
    """Folders below the roots that stay unreadable, besides the shipped problems."""
    processes: bool = False
    """May fork and exec."""
    gpu: bool = False
    share_device_memory: bool = False
    """CUDA IPC: /dev/shm, and no namespaces, in which the driver would not find its peer."""
    namespaces: bool = True
    wrapped: bool = False
    """The zygote runs in bubblewrap."""
    unwrapped_because: str = ""
    open_files: str = ""
    """Why Landlock is left off; empty where it closes."""
    device_first: bool = False
    """Start the GPU before Landlock closes: for drivers that need more than a worker may have.
    Threads that the driver starts then stay outside Landlock (the call filter covers them)."""

    def common_grants(self) -> list[Grant]:
        """What all workers may reach; the scratch folder is each one's own."""
        return common_grants(
            map(Path, self.roots),
            hidden=map(Path, self.hidden),
            gpu=self.gpu,
            shared_memory=self.share_device_memory,
        )


def confine(
    plan: Confinement,
    grants: list[Grant],
    scratch: Path,
    *,
    spaces: int,
    private_proc: bool,
    keep_capabilities: bool = False,
) -> list[Layer]:
    """Apply what can be applied, in the worker, before any job; never raises for a missing layer.

    `grants` are the plan's `common_grants`, `spaces` the namespaces that the process was forked
    into, `private_proc` whether its keeper could mount a /proc of its own. `keep_capabilities` is
    for a GPU driver that shows its performance counters to the administrator only.
    """
    layers = [Layer(name=BUBBLEWRAP, ok=plan.wrapped, detail=plan.unwrapped_because)]
    layers += [Layer(name=name, ok=bool(spaces & flag)) for flag, name in namespaces.NAMES.items()]
    layers.append(Layer(name="private /proc", ok=private_proc or plan.wrapped))
    layers.append(_attempt("no new privileges", lambda: prctl(_PR_SET_NO_NEW_PRIVS, 1)))
    allowed = [*grants, (scratch, landlock.OWN)]
    note = "; not over the driver's own threads" if plan.device_first else ""
    if plan.open_files:
        layers.append(Layer(name=LANDLOCK, ok=False, detail=plan.open_files))
    else:
        layers.append(_attempt(LANDLOCK, lambda: landlock.restrict(allowed) + note))
    if keep_capabilities:
        layers.append(Layer(name="no capabilities", ok=False, detail="kept for the counters"))
    else:
        layers.append(_attempt("no capabilities", drop_capabilities))
    alone = bool(spaces & namespaces.PROCESSES)
    layers.append(
        _attempt(
            SECCOMP,
            lambda: seccomp.worker_filter(
                processes=plan.processes, device=plan.gpu, alone=alone
            ).install(),
        )
    )
    return layers


def _attempt(name: str, apply: Callable[[], str | None]) -> Layer:
    try:
        return Layer(name=name, ok=True, detail=apply() or "")
    except OSError as fault:
        return Layer(name=name, ok=False, detail=str(fault))


def in_force(layers: tuple[Layer, ...]) -> str:
    """`bubblewrap`, `landlock+seccomp` or `process only`: the weakest word that is true.

    Both strong words need the seccomp filter; Landlock or bubblewrap then guards the files.
    """
    holding = {layer.name for layer in layers if layer.ok}
    if SECCOMP in holding and BUBBLEWRAP in holding:
        return "bubblewrap"
    if {SECCOMP, LANDLOCK} <= holding:
        return "landlock+seccomp"
    return "process only"
