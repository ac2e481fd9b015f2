"""What a job finds when it runs in a worker."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from workbench.isolation import landlock, seccomp
from workbench.isolation.landlock import Grant
from workbench.isolation.records import Flavor, Limits
from workbench.isolation.sharedfiles import FOLDER
from workbench.isolation.wire import Blob


class JobContext:
    """The worker as its jobs see it. One per worker; lives as long as the worker does.

    `state` keeps whatever jobs want to find again in the next call (a loaded module, tensors).
    `scratch` is the worker's private folder, the only place it can write to: HOME, TMPDIR and
    TRITON_CACHE_DIR lie in it. It is removed with the worker. `device` is the torch device the
    flavor computes on: `cuda:0` where a GPU is visible, else `cpu`.
    """

    def __init__(
        self,
        *,
        scratch: Path,
        flavor: Flavor,
        limits: Limits,
        device: str,
        grants: Sequence[Grant] = (),
    ) -> None:
        self.state: dict[str, object] = {}
        self.scratch = scratch
        self.flavor = flavor
        self.limits = limits
        self.device = device
        self._grants = grants

    def forbid_exec(self) -> None:
        """From now on, for good: no new process and no program, for every thread.

        Processes that run already stay as they are; `Worker.forbid_programs` ends them. Nothing new
        in the flavors that never allowed it. Raises OSError where the kernel has no seccomp.
        """
        seccomp.forbid_processes()

    def close_shared_memory(self, kept: Sequence[Path]) -> str:
        """From now on, for good: nothing in /dev/shm but the files `kept`, and no new ones.

        A second Landlock domain within the first; threads that run already stay in that. Returns
        what is in force in words. Raises OSError where the kernel has no Landlock.
        """
        rest = [(path, rights) for path, rights in self._grants if path != FOLDER]
        own = [(path, landlock.READ | landlock.Right.WRITE_FILE) for path in kept]
        return landlock.restrict([*rest, *own, (self.scratch, landlock.OWN)])


Job = Callable[[JobContext, dict[str, Any], list[Blob]], tuple[dict[str, Any], list[Blob]]]
"""`job(bench, request, blobs) -> (body, blobs)`; both bodies msgpack-able; may raise anything."""
