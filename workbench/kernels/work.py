"""A digest of what a candidate makes a GPU do, equal for two texts that do the same work."""

import hashlib
from collections.abc import Sequence

import msgspec
from msgspec import structs

from workbench.kernels.records import (
    Argument,
    DescriptorArgument,
    HostOperation,
    Launch,
    ScalarArgument,
    TensorArgument,
)

_ALIGNED = 16
"""Largest alignment in bytes that changes the code (triton's `tt.divisibility`)."""


def work_digest(launches: Sequence[Launch], host: Sequence[HostOperation] = ()) -> str:
    """Digest of all launches in order, and of what torch does beside them; empty without launches.

    A launch counts with its instructions, grid, arguments and shared memory. Names, lines, compile
    times and the folder of compilation do not change the work, so they do not count.
    """
    if not launches:
        return ""
    parts: list[object] = [
        [
            launch.code_sha256 or launch.cubin_sha256,
            launch.grid,
            launch.num_warps,
            launch.num_ctas,
            launch.static.shared_bytes,
            *map(_argument, launch.arguments.values()),
        ]
        for launch in launches
    ]
    parts.append([(operation.name, operation.bytes) for operation in host])
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def _argument(argument: Argument) -> object:
    match argument:
        case ScalarArgument():
            return argument.value
        case DescriptorArgument():
            return (argument.block, _argument(argument.base))
        case TensorArgument():
            return structs.replace(argument, alignment=min(argument.alignment, _ALIGNED))
