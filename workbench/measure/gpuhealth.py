"""GPUs that were taken out: which, why and since when; and what the driver says of one's health.

A record is a small file in the person's runtime folder, which a restart of the machine empties. A
GPU comes back when its file is removed, after whatever the record's reason asks for.
"""

import contextlib
import time
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from workbench.paths import runtime_home

_LOOK_SECONDS = 0.2


class Sick(Struct, frozen=True, kw_only=True):
    """A GPU that is not to be used."""

    uuid: str
    """Or `index-N` where NVML does not tell one."""
    reason: str
    since: str
    """ISO 8601, UTC."""


def folder() -> Path:
    """Where the records lie."""
    return runtime_home() / "sick-gpus"


def record_path(uuid: str) -> Path:
    """The record of one GPU: removing it brings the GPU back."""
    return folder() / f"{uuid}.json"


def take_out(uuid: str, reason: str) -> Sick:
    """Record that a GPU is not to be used; the first reason stays."""
    known = sickness(uuid)
    if known is not None:
        return known
    sick = Sick(uuid=uuid, reason=reason, since=datetime.now(UTC).isoformat(timespec="seconds"))
    path = record_path(uuid)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_bytes(msgspec.json.encode(sick))
    return sick


def sickness(uuid: str) -> Sick | None:
    """Why a GPU is not to be used; None when it is well. An unreadable record counts as one."""
    path = record_path(uuid)
    try:
        return msgspec.json.decode(path.read_bytes(), type=Sick)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as fault:
        return Sick(uuid=uuid, reason=f"its record cannot be read: {fault}", since="unknown")


def how_to_clear(uuid: str) -> str:
    """What a person does to use a GPU again."""
    return f"reset it (nvidia-smi --gpu-reset, or a restart), then: rm {record_path(uuid)}"


def complaint(uuid: str) -> str:
    """What the driver wants done to a GPU after a fault of the hardware; empty when nothing.

    This is NVML's recovery action, the driver's own reading of the Xids it met: those that a
    kernel's bad address causes (13, 31, 43) ask for none. Drivers before 560 do not tell.
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
    """Those of `pids`, all killed, that the driver still lists as computing after `seconds`."""
    until = time.monotonic() + seconds
    while (left := sorted(set(listed()) & set(pids))) and time.monotonic() < until:
        time.sleep(_LOOK_SECONDS)
    return left
