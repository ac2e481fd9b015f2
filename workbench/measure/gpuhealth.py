"""GPUs that were taken out of use: which, why and since when; and the driver's view of a GPU.

A record is a small file in the user's runtime folder, which a restart of the machine empties. A
GPU is used again once its file is removed.
"""

import contextlib
import time
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from workbench.measure.cache import write_cached
from workbench.paths import runtime_home

_POLL_SECONDS = 0.2


class Sick(Struct, frozen=True, kw_only=True):
    """The record of a GPU that must not be used."""

    uuid: str
    """The GPU's UUID, or `index-N` where NVML does not give one."""
    reason: str
    since: str
    """ISO 8601, UTC."""


def folder() -> Path:
    """The folder of the records."""
    return runtime_home() / "sick-gpus"


def record_path(uuid: str) -> Path:
    """The file that records one GPU; removing it brings the GPU back."""
    return folder() / f"{uuid}.json"


def take_out(uuid: str, reason: str) -> Sick:
    """Record that a GPU must not be used; an earlier record is kept and returned.

    Where no record can be written, the reason says so: other processes still use the GPU.
    """
    known = sickness(uuid)
    if known is not None:
        return known
    sick = Sick(uuid=uuid, reason=reason, since=datetime.now(UTC).isoformat(timespec="seconds"))
    path = record_path(uuid)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if write_cached(path, sick):
        return sick
    return structs.replace(sick, reason=f"{reason}; no record could be written to {path}")


def sickness(uuid: str) -> Sick | None:
    """The record of a GPU that must not be used; None when it is well.

    An unreadable file counts as a record.
    """
    path = record_path(uuid)
    try:
        return msgspec.json.decode(path.read_bytes(), type=Sick)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as fault:
        return Sick(uuid=uuid, reason=f"its record cannot be read: {fault}", since="unknown")


def how_to_clear(uuid: str) -> str:
    """What to do so that a GPU is used again, as one line for a person."""
    return f"reset it (nvidia-smi --gpu-reset, or a restart), then: rm {record_path(uuid)}"


def complaint(uuid: str) -> str:
    """What the driver wants done to a GPU after a hardware fault; empty when nothing.

    This is NVML's recovery action, the driver's own judgement of the Xids it saw: those that a
    kernel's bad address causes (13, 31, 43) need none. Drivers before 560 do not report it.
    """
    import pynvml

    with contextlib.suppress(pynvml.NVMLError):
        pynvml.nvmlInit()
        try:
            handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            field = pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
            (told,) = pynvml.nvmlDeviceGetFieldValues(handle, [field])
        finally:
            pynvml.nvmlShutdown()
        if told.nvmlReturn == pynvml.NVML_SUCCESS:
            return recovery_words(int(told.value.uiVal))
    return ""


def recovery_words(action: int) -> str:
    """`nvmlDeviceGpuRecoveryAction_t` in words; empty for none."""
    if action == 0:
        return ""
    known = {
        1: "a reset of the GPU",
        2: "a restart of the machine",
        3: "an end of all work between GPUs",
        4: "a reset of the GPU once its work has ended",
    }
    return f"the driver asks for {known.get(action, f'recovery action {action}')}"


def lingering(
    listed: Callable[[], Collection[int]], pids: Collection[int], seconds: float
) -> list[int]:
    """The killed `pids` that `listed()` still contains after up to `seconds`, in order."""
    until = time.monotonic() + seconds
    while (left := sorted(set(listed()) & set(pids))) and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)
    return left
