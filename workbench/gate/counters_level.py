"""The strictest sandbox in which an NVIDIA tool works on this machine: tried once and cached.

The tool's in-process part reads its own installation and temporary files after the sandbox has
closed. What else it reads is undocumented, so it is tried on a kernel of our own.
"""

import hashlib
import os
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from workbench import paths
from workbench.errors import WorkbenchError
from workbench.isolation.grants import holds_home
from workbench.isolation.records import Layer
from workbench.isolation.sandbox import SECCOMP, in_force
from workbench.measure.cache import read_cached, write_cached
from workbench.measure.gpus import NvmlFault, list_gpus

_SHARED_PLACES = ("opt/nvidia/nsight-compute", "opt/nvidia/compute-sanitizer")
"""Where NVIDIA's installers put the tools that a toolkit's `bin` only links to."""
_BESIDE = ("nsight-compute*", "compute-sanitizer", "extras/Sanitizer")
"""The same within an installation prefix."""
_ROUND = 1
"""Version of the granted paths: a result that was found under another version is tried again."""


class Level(StrEnum):
    """Levels of confinement, from the strictest down."""

    CONFINED = "confined"
    """Landlock and seccomp, like every candidate's worker."""
    CALLS = "calls"
    """Seccomp alone: the user's files are readable; network, other processes, their memory and
    kernel interfaces stay closed."""
    BARE = "bare"

    def says(self, tool: str) -> str:
        """A sentence for the reader of a record; empty for the strictest level."""
        match self:
            case Level.CONFINED:
                return ""
            case Level.CALLS:
                return (
                    f"files were open to it, network and other processes were not: {tool} does not "
                    "work under Landlock here, as a kernel of our own shows"
                )
            case Level.BARE:
                return (
                    f"nothing confined it: {tool} does not work in a sandbox here, as a kernel of "
                    "our own shows"
                )


def word(layers: tuple[Layer, ...]) -> str:
    """Its name in `in_force`; `seccomp only` for the level between the two."""
    found = in_force(layers)
    held = any(layer.ok for layer in layers if layer.name == SECCOMP)
    return "seccomp only" if found == "process only" and held else found


def installation(tool: Path, root: Path = Path("/")) -> tuple[str, ...]:
    """Existing folders, as real paths, that the tool's in-process part reads and executes.

    Derived from the program behind all links. Never a folder that contains the user's home, nor a
    whole prefix: the installation of a program in `bin` lies beside that folder.
    """
    program = tool.resolve()
    if program.parent.name in {"bin", "sbin"}:
        prefix = program.parent.parent
        found = [path for name in _BESIDE for path in sorted(prefix.glob(name))]
    else:
        found = [program.parent]
    found += [root / place for place in _SHARED_PLACES]
    real = (path.resolve() for path in found if path.is_dir())
    return tuple(dict.fromkeys(str(path) for path in real if not holds_home(path)))


class _Remembered(Struct, frozen=True, kw_only=True):
    level: Level
    key: str
    """The key in words, for a reader of the file."""


def remembered(tool: str, version: str) -> Level | None:
    """The level at which the tool worked before under this kernel and driver; None if unknown."""
    file = _file(tool, version)
    found = None if file is None else read_cached(file, _Remembered)
    return None if found is None else found.level


def remember(tool: str, version: str, level: Level) -> None:
    """Cache the level; where the cache cannot be written it is tried again next time."""
    file = _file(tool, version)
    if file is not None:
        write_cached(file, _Remembered(level=level, key=_key(tool, version)))


def _file(tool: str, version: str) -> Path | None:
    """The cache file; None where no home folder is known."""
    name = hashlib.sha256(_key(tool, version).encode()).hexdigest()[:16]
    try:
        return paths.cache_home() / "sandbox" / f"{name}.json"
    except WorkbenchError:
        return None


def _key(tool: str, version: str) -> str:
    try:
        drivers = sorted({gpu.driver for gpu in list_gpus()})
    except NvmlFault:
        drivers = ["not told"]
    about = (tool, version, f"Linux {os.uname().release}", f"driver {' '.join(drivers)}", _ROUND)
    return ", ".join(map(str, about))
