"""Which files a worker may see: the toolchain, the kernel's own files, its scratch, nothing else.

What is not listed does not exist for a worker: the home folder, the problem's file, sessions,
other workers' scratch folders, /tmp, /run, /var. Inside our own package the shipped problems and
sessions are left out too, so that no candidate can read the reference it is judged against.
"""

import importlib.util
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from workbench import paths
from workbench.isolation.landlock import DEVICE, OWN, READ, RUN, Grant, Right

_PACKAGE = Path(__file__).resolve().parent.parent
HIDDEN = (_PACKAGE / "problems" / "suite", _PACKAGE / "_shipped")

_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/nix/store", "/run/opengl-driver")
_PREFIX_PARTS = (
    "bin",
    "include",
    "lib",
    "lib64",
    "libexec",
    "nvvm",
    "pyvenv.cfg",
    "share",
    "ssl",
    "targets",
    "x86_64-conda-linux-gnu",
    "aarch64-conda-linux-gnu",
)
"""Of a Python prefix: a virtual environment may be a project folder with the problem in it."""

_LIBRARIES = ("stdlib", "platstdlib", "purelib", "platlib")
_SETTINGS = (
    "/etc/alternatives",
    "/etc/group",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
)
_SOURCES = ("/dev/zero", "/dev/random", "/dev/urandom")
_PACKAGES = ("torch", "triton", "numpy", "msgspec")
_COMPILERS = ("cc", "gcc", "clang")


def toolchain(environment: Mapping[str, str]) -> list[Path]:
    """Folders (and a few files) from which a worker reads and runs, existing ones only.

    Python and its packages, system libraries, the C compiler on PATH, CUDA_HOME and
    LD_LIBRARY_PATH as `environment` names them. Never a folder that holds the user's home, where
    there is one.
    """
    found = [Path(path) for path in _SYSTEM]
    for prefix in {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}:
        found += [Path(prefix) / part for part in _PREFIX_PARTS]
    found += [Path(sysconfig.get_path(name)) for name in _LIBRARIES]
    found += [_PACKAGE, *_package_folders(), *_compiler_folders(environment)]
    for name in ("CUDA_HOME", "LD_LIBRARY_PATH"):
        found += [Path(path) for path in environment.get(name, "").split(os.pathsep) if path]
    seen: dict[Path, None] = {}
    for path in found:
        if path.is_absolute() and path.exists() and not holds_home(path):
            seen[path] = None
    return list(seen)


def holds_home(folder: Path) -> bool:
    """Whether the user's home folder lies in this one, or is it; false where there is none."""
    home = paths.home_folder()
    return home is not None and home.resolve().is_relative_to(folder.resolve())


def _package_folders() -> Iterator[Path]:
    """Where the packages lie that a worker imports: not always in this Python's own prefix."""
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        for location in (spec.submodule_search_locations or ()) if spec else ():
            # The folder above holds what the package brought along, such as `nvidia/` and `.libs`.
            yield Path(location).parent


def _compiler_folders(environment: Mapping[str, str]) -> Iterator[Path]:
    for name in (environment.get("CC", ""), *_COMPILERS):
        program = shutil.which(name, path=environment.get("PATH")) if name else None
        if program:
            prefix = Path(program).resolve().parent.parent
            yield from (prefix / part for part in _PREFIX_PARTS)


def devices(*, gpu: bool, shared_memory: bool) -> list[Path]:
    """Device nodes that a worker opens for reading and writing."""
    nodes = [Path("/dev/null")]
    if gpu:
        nodes += sorted(Path("/dev").glob("nvidia*"))
    if shared_memory:
        nodes.append(Path("/dev/shm"))  # noqa: S108 -- torch keeps the counters of CUDA IPC there
    return nodes


def common_grants(
    roots: Iterable[Path], *, hidden: Iterable[Path], gpu: bool, shared_memory: bool
) -> list[Grant]:
    """What every worker of a flavor may reach, as Landlock takes it; computed once, in the zygote.

    A GPU driver names its threads by writing /proc/self/task/*/comm; where that is denied,
    cuInit fails with error 304 (drivers from 570 on).
    """
    concealed = [path.resolve() for path in (*HIDDEN, *hidden)]
    allowed: list[Grant] = []
    for root in roots:
        allowed += carve(root, concealed)
    allowed += [(Path(path), READ) for path in (*_SETTINGS, *_SOURCES, "/proc", "/sys")]
    allowed += [(path, DEVICE) for path in devices(gpu=gpu, shared_memory=False)]
    if gpu:
        allowed.append((Path("/proc/self/task"), READ | Right.WRITE_FILE))
    if shared_memory:
        allowed.append((Path("/dev/shm"), OWN))  # noqa: S108 -- see `devices`
    return allowed


def carve(root: Path, hidden: list[Path]) -> Iterator[Grant]:
    """Leave to read and run all below `root` but what lies below `hidden` (resolved paths).

    Landlock can only allow: a folder with something hidden in it may be listed, and each of its
    other entries is allowed by itself.
    """
    real = root.resolve()
    if any(real.is_relative_to(path) for path in hidden):
        return
    if not any(path.is_relative_to(real) for path in hidden):
        yield root, RUN
        return
    yield root, Right.READ_DIR
    for entry in sorted(root.iterdir()):
        # A link's target is allowed where it lies, or not at all.
        if not entry.is_symlink():
            yield from carve(entry, hidden)
