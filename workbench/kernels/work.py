"""What a candidate makes a GPU do, as a digest: the same for two texts that are the same work."""

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
"""Bytes that the compiler looks at (triton's `tt.divisibility`); more is the allocator's luck."""


def work_digest(launches: Sequence[Launch], host: Sequence[HostOperation] = ()) -> str:
    """Of the instructions of every launch in order, with its grid, its arguments, its shared
    memory, and what torch does beside them. Empty without launches.

    Names, lines, compile times and the folder that was compiled in do not count: they change
    nothing.
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
