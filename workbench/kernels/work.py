"""What a candidate makes a GPU do, as a digest: the same for two texts that are the same work."""

import hashlib
from collections.abc import Iterable, Sequence

import msgspec

from workbench.kernels.records import HostOperation, Launch, ScalarArgument


def work_digest(launches: Sequence[Launch], host: Sequence[HostOperation] = ()) -> str:
    """Of the machine code of every launch in order, with its grid, its arguments, and what torch
    does beside them. Empty without launches.

    Names, lines and compile times do not count: they change nothing.
    """
    if not launches:
        return ""
    parts: list[object] = [
        [launch.cubin_sha256, launch.grid, launch.num_warps, launch.num_ctas, *_arguments(launch)]
        for launch in launches
    ]
    parts.append([(operation.name, operation.bytes) for operation in host])
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()


def _arguments(launch: Launch) -> Iterable[object]:
    for argument in launch.arguments.values():
        yield argument.value if isinstance(argument, ScalarArgument) else argument
