"""The launch settings that Inductor's own heuristics give to one of its kernels."""

import runpy
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from workbench.kernels.inductor.records import LiftRefused
from workbench.kernels.untyped import Untyped

_ELEMENTS = 2048
"""Ours: of several block sizes that Inductor would time, the one nearest to this many elements."""


class Heuristics(Struct, frozen=True, kw_only=True):
    """How a kernel is launched."""

    blocks: dict[str, int]
    """`XBLOCK`, `R0_BLOCK`, ...; empty for templates, whose tiles are inside the text."""
    num_warps: int
    num_stages: int
    grid: str
    """Inductor's name of the grid's form: `Grid1D`, `FixedGrid`, ..."""


def read_heuristics(name: str, text: str) -> Heuristics:
    """Import the kernel's text, decorators and all, and read what they decided.

    The text is Inductor's own; nothing in it runs on a device.
    """
    kernel = _imported(name, text.replace("triton_helpers.set_driver_to_gpu()", ""))
    if not kernel.configs:
        raise LiftRefused(f"Inductor has no launch settings for its kernel {name}")
    config = min(kernel.configs, key=lambda c: abs(_elements(c.kwargs) - _ELEMENTS))
    return Heuristics(
        blocks={k: v for k, v in config.kwargs.items() if isinstance(v, int)},
        num_warps=config.num_warps,
        num_stages=config.num_stages,
        grid=str(kernel.inductor_meta.get("grid_type", "")),
    )


def _elements(blocks: dict[str, int]) -> int:
    product = 1
    for value in blocks.values():
        product *= value if isinstance(value, int) else 1
    return product


def _imported(name: str, text: str) -> Untyped:
    # Triton reads a kernel's source from its file when the decorator runs.
    with TemporaryDirectory(prefix="lift") as folder:
        path = Path(folder) / "kernel.py"
        path.write_text(text, encoding="utf-8")
        return runpy.run_path(str(path))[name]
