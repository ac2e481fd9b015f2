"""Keeps ptxas' report of registers and spills with the binary that it describes."""

import contextlib
import io
import os
import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from triton import knobs
from triton.backends.nvidia.compiler import CUDABackend

from workbench.kernels.untyped import Untyped

_FIELD = "workbench_ptxas_log"
_FOLDER = "workbench-1"

_NUMBERS = {
    "registers": re.compile(r"Used (\d+) registers"),
    "stack": re.compile(r"(\d+) bytes stack frame"),
    "spill_stores": re.compile(r"(\d+) bytes spill stores"),
    "spill_loads": re.compile(r"(\d+) bytes spill loads"),
}


class PtxasLog(Struct, frozen=True, kw_only=True):
    """What ptxas reports for one kernel: registers per thread; the others are bytes per thread."""

    registers: int
    stack: int
    spill_stores: int
    spill_loads: int


def read_log(metadata: Untyped) -> PtxasLog:
    """The report of a kernel that was compiled inside `keeping_logs`, now or in an earlier run."""
    text: str = getattr(metadata, _FIELD)
    found = {name: pattern.search(text) for name, pattern in _NUMBERS.items()}
    return PtxasLog(**{name: int(match.group(1)) if match else 0 for name, match in found.items()})


@contextlib.contextmanager
def keeping_logs() -> Iterator[None]:
    """Put ptxas' report into each kernel's metadata, which triton stores with the binary.

    A second run of ptxas would not do: its flags, and so its spills, would differ from triton's. We
    use a cache folder of our own inside triton's, so that no entry lacks the report. FP fusion is
    pinned on, which is the default of triton 3.6 to 3.9. What triton prints is suppressed.
    """
    original = CUDABackend.make_cubin

    def make_cubin(self: Untyped, src: Untyped, metadata: Untyped, *rest: Untyped) -> Untyped:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            cubin = original(self, src, metadata, *rest)
        metadata[_FIELD] = printed.getvalue()
        return cubin

    cache = str(Path(knobs.cache.dir) / _FOLDER)
    with knobs.cache.scope(), knobs.nvidia.scope(), _pinned_fusion():
        knobs.cache.dir = cache
        knobs.nvidia.dump_ptxas_log = True
        CUDABackend.make_cubin = make_cubin
        try:
            yield
        finally:
            CUDABackend.make_cubin = original


@contextlib.contextmanager
def _pinned_fusion() -> Iterator[None]:
    before = os.environ.get("TRITON_DEFAULT_FP_FUSION")
    os.environ["TRITON_DEFAULT_FP_FUSION"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["TRITON_DEFAULT_FP_FUSION"]
        else:
            os.environ["TRITON_DEFAULT_FP_FUSION"] = before
