"""The compiler's own account of registers and spills, kept beside the binary it speaks of."""

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
    """What ptxas printed of one kernel: bytes per thread, registers per thread."""

    registers: int
    stack: int
    spill_stores: int
    spill_loads: int


def read_log(metadata: Untyped) -> PtxasLog:
    """The log of a kernel that was compiled inside `keeping_logs`, also from a warm cache."""
    text: str = getattr(metadata, _FIELD)
    found = {name: pattern.search(text) for name, pattern in _NUMBERS.items()}
    return PtxasLog(**{name: int(match.group(1)) if match else 0 for name, match in found.items()})


@contextlib.contextmanager
def keeping_logs() -> Iterator[None]:
    """Put ptxas' log into each kernel's metadata, which triton stores with the binary.

    A second ptxas run would not do: its flags differ from triton's and so do its spills. The cache
    folder is one of our own inside triton's, so no entry in it lacks the log. FP fusion is pinned
    on, as triton 3.6 to 3.9 have it by default. The log that triton prints is not let through.
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
