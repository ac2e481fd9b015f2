"""Which GPUs this machine has and what else runs on them, through NVML without touching CUDA."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct


class Gpu(Struct, frozen=True, kw_only=True):
    """One GPU as NVML describes it at one moment."""

    index: int
    """NVML's, which follows the PCI bus and not CUDA_VISIBLE_DEVICES."""
    uuid: str
    name: str
    cc: int
    """Compute capability times ten: 90 for 9.0."""
    memory_bytes: int
    driver: str
    utilization: int | None
    """Percent over the last sample; None where the driver will not say."""
    processes: int | None
    """Compute processes on it now; None where the driver will not say."""
    sm_clock_mhz: int | None = None
    temperature_c: int | None = None
    throttle_reasons: int | None = None
    """NVML's bit mask of reasons for which clocks are held down."""
    busy: tuple[str, ...] = ()
    """Compute processes on it now: `python3 (4711)`."""
    ecc_errors: int | None = None
    """Uncorrected memory errors since the driver was loaded; None where ECC is off or unknown."""
    mig: bool = False
    """It is split into slices: no program has all of it."""

    @property
    def target(self) -> str:
        """`sm90`."""
        return f"sm{self.cc}"


class NvmlFault(Exception):
    """NVML is there but does not answer; the text says what it said."""


@contextlib.contextmanager
def _nvml() -> Iterator[object]:
    import pynvml

    pynvml.nvmlInit()
    try:
        yield pynvml
    finally:
        pynvml.nvmlShutdown()


def list_gpus() -> list[Gpu]:
    """The NVIDIA GPUs this process may use, as CUDA counts them; empty without driver or GPU.

    Raises NvmlFault when a driver is there but refuses to answer, so that a sick machine is not
    taken for one without a GPU.
    """
    try:
        import pynvml
    except ImportError:
        return []
    try:
        with _nvml():
            driver = str(pynvml.nvmlSystemGetDriverVersion())
            count = pynvml.nvmlDeviceGetCount()
            return _visible([_read(pynvml, index, driver) for index in range(count)])
    except pynvml.NVMLError as fault:
        absent = (
            pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
            pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
            pynvml.NVML_ERROR_NO_PERMISSION,
        )
        if fault.value in absent[:2]:
            return []
        raise NvmlFault(str(fault)) from fault


def _visible(gpus: list[Gpu]) -> list[Gpu]:
    """Those that CUDA_VISIBLE_DEVICES leaves, in its order: CUDA counts them so.

    An entry is an index or the beginning of a UUID; CUDA ignores all from the first wrong one on.
    """
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return gpus
    seen: list[Gpu] = []
    for entry in wanted.split(","):
        name = entry.strip()
        found = [g for g in gpus if name and (str(g.index) == name or g.uuid.startswith(name))]
        if len(found) != 1:
            break
        seen.append(found[0])
    return seen


def _read(nvml: object, index: int, driver: str) -> Gpu:
    import pynvml

    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)

    def ask(function: str, *args: object) -> int | None:
        try:
            return int(getattr(nvml, function)(handle, *args))
        except pynvml.NVMLError:
            return None

    utilization = processes = None
    busy: tuple[str, ...] = ()
    with contextlib.suppress(pynvml.NVMLError):
        utilization = int(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    with contextlib.suppress(pynvml.NVMLError):
        listed = pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
        processes = len(listed)
        busy = tuple(process_name(int(process.pid)) for process in listed)
    return Gpu(
        index=index,
        uuid=str(pynvml.nvmlDeviceGetUUID(handle)),
        name=str(pynvml.nvmlDeviceGetName(handle)),
        cc=10 * int(major) + int(minor),
        memory_bytes=int(pynvml.nvmlDeviceGetMemoryInfo(handle).total),
        driver=driver,
        utilization=utilization,
        processes=processes,
        sm_clock_mhz=ask("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_SM),
        temperature_c=ask("nvmlDeviceGetTemperature", pynvml.NVML_TEMPERATURE_GPU),
        throttle_reasons=ask("nvmlDeviceGetCurrentClocksThrottleReasons"),
        busy=busy,
        ecc_errors=ask(
            "nvmlDeviceGetTotalEccErrors",
            pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
            pynvml.NVML_VOLATILE_ECC,
        ),
        mig=_is_split(pynvml, handle),
    )


def _is_split(nvml: Any, handle: object) -> bool:  # noqa: ANN401 -- an untyped module
    """Whether MIG is on; a GPU that knows no MIG says it is not supported."""
    try:
        return int(nvml.nvmlDeviceGetMigMode(handle)[0]) == 1
    except nvml.NVMLError:
        return False


def process_name(pid: int) -> str:
    """`python3 (4711)`; `process 4711` where its name is not ours to read."""
    try:
        name = (Path("/proc") / str(pid) / "comm").read_text(errors="replace").strip()
    except OSError:
        return f"process {pid}"
    return f"{name} ({pid})"


def hidden_by_environment(gpus: Sequence[Gpu]) -> str:
    """What CUDA_VISIBLE_DEVICES says where it leaves no GPU although it names something."""
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return wanted if wanted.strip() and not gpus else ""


def idlest(gpus: list[Gpu]) -> Gpu:
    """The GPU with the fewest other processes, then the least use, then the lowest index."""
    return min(gpus, key=lambda g: (g.processes or 0, g.utilization or 0, g.index))
