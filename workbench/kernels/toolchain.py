"""Finds the compiler programs in triton's wheel, and the versions that exact numbers depend on."""

import importlib.metadata
import importlib.util
import re
import subprocess
from functools import lru_cache
from pathlib import Path

from workbench.errors import WorkbenchError

_RELEASE = re.compile(r"release [\d.]+, V([\d.]+)")


def tool(name: str) -> Path:
    """Path of a program of triton's NVIDIA backend (`ptxas`, `cuobjdump`, `nvdisasm`).

    Found without importing triton. Raises WorkbenchError when the wheel does not contain it.
    """
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        raise WorkbenchError("triton is not installed", todo="pip install 'triton>=3.6'")
    path = Path(spec.origin).parent / "backends" / "nvidia" / "bin" / name
    if not path.is_file():
        raise WorkbenchError(
            f"triton's wheel has no {name}", where=str(path), todo="reinstall triton"
        )
    return path


def ptxas_for(arch: int) -> str:
    """The name of the ptxas that the installed triton runs for this architecture.

    Triton 3.9 uses the newer one from sm_90 on, triton 3.6 from sm_100 on. Imports triton.
    """
    from triton.backends.nvidia.compiler import get_ptxas

    return Path(get_ptxas(arch).path).name


@lru_cache
def tool_version(name: str) -> str:
    """The release of one program, like `13.1.80`; empty when it cannot be found out."""
    try:
        said = subprocess.run(
            [str(tool(name)), "--version"], capture_output=True, text=True, check=False, timeout=20
        ).stdout
    except (WorkbenchError, OSError, subprocess.TimeoutExpired):
        return ""
    found = _RELEASE.search(said)
    return found.group(1) if found else ""


def tool_versions() -> dict[str, str]:
    """Releases of the compiler programs by name; empty where one is missing."""
    return {
        name: tool_version(name) for name in ("ptxas", "ptxas-blackwell", "cuobjdump", "nvdisasm")
    }


def versions(arch: int) -> dict[str, str]:
    """Versions for which exact numbers of this target hold: torch, triton and the ptxas in use."""
    return {
        "torch": importlib.metadata.version("torch"),
        "triton": importlib.metadata.version("triton"),
        "ptxas": tool_version(ptxas_for(arch)),
    }
