"""Jobs that write to /dev/shm, as torch does for its counters and a candidate may."""

# Jobs have one signature.
# ruff: noqa: ARG001

import os
from pathlib import Path


def make_counter(bench, request, blobs):
    """A file in /dev/shm such as torch makes, `bytes` long."""
    path = Path(f"/dev/shm/torch_{os.getpid()}_{request['word']}")
    with path.open("wb") as file:
        file.write(b"x" * request.get("bytes", 1))
    return {"name": path.name}, []


def grow_counter(bench, request, blobs):
    with Path("/dev/shm", request["name"]).open("r+b") as file:
        file.write(b"y" * request["bytes"])
    return {}, []


def write_scratch(bench, request, blobs):
    (bench.scratch / "mine").write_text("mine")
    (bench.scratch / "tmp").mkdir(exist_ok=True)
    (bench.scratch / "mine").rename(bench.scratch / "tmp" / "moved")
    with Path("/dev/zero").open("rb") as zero:
        return {"zero": zero.read(1)}, []
