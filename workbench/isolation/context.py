"""What a job finds when it runs in a worker."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from workbench.isolation import seccomp
from workbench.isolation.records import Flavor, Limits
from workbench.isolation.wire import Blob


class JobContext:
    """The worker as its jobs see it. One per worker; lives as long as the worker does.

    `state` keeps whatever jobs want to find again in the next call (a loaded module, tensors).
    `scratch` is the worker's private folder, the only place it can write to: HOME, TMPDIR and
    TRITON_CACHE_DIR lie in it. It is removed with the worker. `device` is the torch device the
    flavor computes on: `cuda:0` where a GPU is visible, else `cpu`.
    """

    def __init__(self, *, scratch: Path, flavor: Flavor, limits: Limits, device: str) -> None:
        self.state: dict[str, object] = {}
        self.scratch = scratch
        self.flavor = flavor
        self.limits = limits
        self.device = device

    def forbid_exec(self) -> None:
        """From now on, for good: no new process and no program, for every thread.

        For the CUDA flavor once its kernels are compiled; nothing new in the flavors that never
        allowed it. Raises OSError where the kernel has no seccomp.
        """
        seccomp.forbid_processes()


Job = Callable[[JobContext, dict[str, Any], list[Blob]], tuple[dict[str, Any], list[Blob]]]
"""`job(bench, request, blobs) -> (body, blobs)`; both bodies msgpack-able; may raise anything."""
