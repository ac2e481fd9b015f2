"""bubblewrap around a forkserver: a file system in which nothing but the toolchain exists."""

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from workbench.isolation.grants import HIDDEN, devices
from workbench.isolation.sandbox import Confinement

_SETTINGS = ("alternatives", "group", "ld.so.cache", "localtime", "nsswitch.conf", "passwd")


def program() -> str | None:
    """The path of `bwrap`, if it is installed. Whether it works shows when it is used."""
    return shutil.which("bwrap")


def wrapping(
    bwrap: str, plan: Confinement, scratch_root: Path, files: Sequence[str] = ()
) -> list[str]:
    """The words to put before a command so that it runs wrapped, descriptors passing through.

    `files` are to be readable besides the plan's roots.

    It does not end with the thread that started it (`--die-with-parent` would): a zygote watches
    its socket instead, and bubblewrap ends with the zygote.
    """
    words = [bwrap, "--unshare-user", "--unshare-net", "--unshare-uts"]
    if not plan.share_device_memory:
        words += ["--unshare-pid", "--unshare-ipc"]
    for root in _shortest(plan.roots):
        link = Path(root)
        if link.is_symlink():
            words += ["--symlink", str(link.readlink()), root]
        else:
            words += ["--ro-bind", root, root]
    for hidden in (*map(str, HIDDEN), *plan.hidden):
        if any(Path(hidden).is_relative_to(root) for root in plan.roots) and Path(hidden).is_dir():
            words += ["--tmpfs", hidden]
    for file in files:
        if not any(Path(file).is_relative_to(root) for root in plan.roots):
            words += ["--ro-bind", file, file]
    for name in _SETTINGS:
        words += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    # A new /proc belongs to a new PID namespace; and the GPU driver writes to its own part of it.
    proc = ["--bind", "/proc", "/proc"] if plan.share_device_memory else ["--proc", "/proc"]
    words += [*proc, "--dev", "/dev", "--ro-bind", "/sys", "/sys"]
    for node in devices(gpu=plan.gpu, shared_memory=plan.share_device_memory):
        words += ["--dev-bind", str(node), str(node)]
    return [*words, "--bind", str(scratch_root), str(scratch_root), "--chdir", "/", "--"]


def _shortest(roots: Iterable[str]) -> list[str]:
    """The roots that lie in no other one, those nearest to / first."""
    kept: list[str] = []
    for root in sorted(roots, key=lambda path: path.count("/")):
        if not any(Path(root).is_relative_to(other) for other in kept):
            kept.append(root)
    return kept
