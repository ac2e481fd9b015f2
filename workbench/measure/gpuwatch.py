"""A GPU's clocks while something is timed on it, and which other processes compute there.

Read through NVML in the judge's process, without touching CUDA. Reading takes from tens of
microseconds to a few milliseconds, so it is done between calls, never within one.
"""

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Protocol

from msgspec import Struct

from workbench.isolation.flavors import visible_device
from workbench.isolation.processes import ancestors, descendants
from workbench.measure.gpulock import neighbours
from workbench.measure.gpus import Gpu, NvmlFault, list_gpus, process_name

IDLE, APPLICATION_CLOCKS, DISPLAY_CLOCKS = 0x1, 0x2, 0x100
"""NVML's reasons for clocks below the maximum that are not throttling: nothing runs, or somebody
has set the clocks."""
_HARMLESS = IDLE | APPLICATION_CLOCKS | DISPLAY_CLOCKS
_POWER_CAP = 0x4
_HELD_BY = {
    0x2: "application clocks",
    _POWER_CAP: "the power cap",
    0x8: "hardware slowdown",
    0x10: "another GPU's clocks",
    0x20: "temperature (software)",
    0x40: "temperature (hardware)",
    0x80: "the power brake",
    0x100: "display clocks",
}
"""NVML's bits in words (nvml.h, "Clocks Event Reasons")."""
_HOT = 0x8 | 0x20 | 0x40 | 0x80
"""Reasons that no workload causes on a GPU with proper cooling and power. The power cap is not
among them: dense products reach it everywhere."""
CLOCK_CHANGE = 0.02
"""Largest relative change of the SM clock within a pair (gate protocol, section 9)."""


class GpuState(Struct, frozen=True, kw_only=True):
    """A GPU's clocks at one moment; a field is None where the driver does not report it."""

    sm_clock_mhz: int | None = None
    throttle_reasons: int | None = None
    """NVML's bit mask."""


class Watch(Protocol):
    """An observer of one GPU."""

    def state(self) -> GpuState:
        """Its clocks now."""

    def strangers(self) -> tuple[str, ...]:
        """Other processes that compute on it (`python3 (4711)`), neither ours nor neighbours'."""

    def neighbours(self) -> tuple[str, ...]:
        """Other workbenches with processes on it, which respect its lock: `workbench (4711)`."""


class NoWatch:
    """The watch where NVML is not available: it knows nothing."""

    def state(self) -> GpuState:
        """Nothing is known."""
        return GpuState()

    def strangers(self) -> tuple[str, ...]:
        """None are known."""
        return ()

    def neighbours(self) -> tuple[str, ...]:
        """None are known."""
        return ()


class NvmlWatch:
    """A watch through NVML, which must stay initialised while it is used."""

    def __init__(
        self,
        nvml: Any,  # noqa: ANN401 -- an untyped module
        handle: object,
        others: Callable[[], Collection[int]] = tuple,
    ) -> None:
        self._nvml = nvml
        self._handle = handle
        self._others = others
        """Gives the ids of workbenches that use the same lock."""

    def state(self) -> GpuState:
        """Its clocks now."""
        nvml, handle = self._nvml, self._handle
        return GpuState(
            sm_clock_mhz=self._asked(
                lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)
            ),
            throttle_reasons=self._asked(
                lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
            ),
        )

    def strangers(self) -> tuple[str, ...]:
        """Other processes that compute on it, as far as the driver lists their ids."""
        foreign, owners = self._foreign()
        return tuple(process_name(pid) for pid in foreign if pid not in owners)

    def neighbours(self) -> tuple[str, ...]:
        """Other workbenches with processes on it, each once."""
        _, owners = self._foreign()
        return tuple(process_name(pid) for pid in dict.fromkeys(owners.values()))

    def _foreign(self) -> tuple[list[int], dict[int, int]]:
        """Ids of processes that are not ours, and by id the workbench that some belong to."""
        try:
            listed = self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)
        except self._nvml.NVMLError:
            return [], {}
        own = {os.getpid(), *descendants(os.getpid())}
        foreign = [int(process.pid) for process in listed if process.pid not in own]
        workbenches = set(self._others()) if foreign else set()
        owners = {pid: owner for pid in foreign if (owner := _owner(pid, workbenches))}
        return foreign, owners

    def _asked(self, question: Callable[[], object]) -> int | None:
        try:
            return int(str(question()))
        except self._nvml.NVMLError:
            return None


def _owner(pid: int, workbenches: Collection[int]) -> int | None:
    """The workbench that a process is or descends from; None where it is none of these."""
    if not workbenches:
        return None
    return next((one for one in (pid, *ancestors(pid)) if one in workbenches), None)


@contextlib.contextmanager
def watching(uuid: str) -> Iterator[Watch]:
    """A watch on the GPU of that UUID; a `NoWatch` where NVML does not answer."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield NoWatch()
        return
    try:
        try:
            handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        except pynvml.NVMLError:
            yield NoWatch()
        else:
            yield NvmlWatch(pynvml, handle, lambda: neighbours(uuid))
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def gpu_behind(device_index: int) -> Gpu | None:
    """The GPU at a workshop's `device_index`; None where NVML does not show it.

    Raises WorkbenchError when CUDA_VISIBLE_DEVICES has fewer entries.
    """
    name = visible_device(device_index, os.environ)
    try:
        gpus = list_gpus()
    except NvmlFault:
        return None
    for gpu in gpus:
        if name == str(gpu.index) or (not name.isdigit() and gpu.uuid.startswith(name)):
            return gpu
    return None


def lock_name(device_index: int) -> str:
    """The name under which the GPU at `device_index` is locked: its UUID, if NVML gives one."""
    gpu = gpu_behind(device_index)
    return gpu.uuid if gpu else f"index-{device_index}"


def held_by(throttle_reasons: int | None) -> tuple[str, ...]:
    """The reasons that hold a GPU's clocks down, in words; empty for an idle GPU."""
    bits = throttle_reasons or 0
    known = tuple(words for bit, words in _HELD_BY.items() if bits & bit)
    rest = bits & ~IDLE & ~sum(_HELD_BY)
    return (*known, f"NVML reasons {rest:#x}") if rest else known


def hot(throttle_reasons: int | None) -> bool:
    """Whether cooling or power hold the GPU back, so that what it reaches now is not a ceiling."""
    return bool((throttle_reasons or 0) & _HOT)


def capped(states: Sequence[GpuState]) -> bool:
    """Whether the power cap, and nothing else, held the clocks down in at least one state."""
    held = [(state.throttle_reasons or 0) & ~_HARMLESS for state in states]
    return any(held) and all(one in {0, _POWER_CAP} for one in held)


def unsteady(states: Sequence[GpuState], *, hot: bool = False) -> str:
    """Why calls made between these readings cannot be compared; empty when they can.

    With `hot` the power cap is accepted: it is then a reason only if the clock moved.
    """
    given = _HARMLESS | _POWER_CAP if hot else _HARMLESS
    for state in states:
        held_down = (state.throttle_reasons or 0) & ~given
        if held_down:
            return f"the GPU's clocks are held down by {', '.join(held_by(held_down))}"
    clocks = [state.sm_clock_mhz for state in states if state.sm_clock_mhz]
    if clocks and max(clocks) > (1 + CLOCK_CHANGE) * min(clocks):
        return f"the SM clock moved between {min(clocks)} and {max(clocks)} MHz"
    return ""
