"""Which GPUs this machine has and what runs on them, read through NVML without touching CUDA."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import Struct


class Gpu(Struct, frozen=True, kw_only=True):
    """One GPU as NVML describes it at one moment."""

    index: int
    """NVML's index, which follows the PCI bus and not CUDA_VISIBLE_DEVICES."""
    uuid: str
    name: str
    cc: int
    """Compute capability times ten: 90 for 9.0."""
    memory_bytes: int
    driver: str
    utilization: int | None
    """Percent over the driver's last sample; None where the driver does not report it."""
    processes: int | None
    """Number of compute processes on it; None where the driver does not report it."""
    sm_clock_mhz: int | None = None
    temperature_c: int | None = None
    throttle_reasons: int | None = None
    """NVML's bit mask of reasons why clocks are held down."""
    busy: tuple[str, ...] = ()
    """Names of the compute processes on it: `python3 (4711)`."""
    ecc_errors: int | None = None
    """Uncorrected memory errors since the driver was loaded; None where ECC is off or unknown."""
    mig: bool = False
    """Whether it is split into MIG slices, so that no program can use all of it."""

    @property
    def target(self) -> str:
        """Name of its compile target: `sm90`."""
        return f"sm{self.cc}"


class NvmlFault(Exception):
    """NVML is installed but fails; the text is its message."""


@contextlib.contextmanager
def _nvml() -> Iterator[None]:
    import pynvml

    pynvml.nvmlInit()
    try:
        yield
    finally:
        pynvml.nvmlShutdown()


def list_gpus() -> list[Gpu]:
    """The NVIDIA GPUs that this process may use, in CUDA's order; empty without driver or GPU.

    Raises NvmlFault when a driver is installed but fails, so that a broken machine is not taken
    for one without a GPU.
    """
    try:
        import pynvml
    except ImportError:
        return []
    try:
        with _nvml():
            driver = str(pynvml.nvmlSystemGetDriverVersion())
            count = pynvml.nvmlDeviceGetCount()
            return _visible([_read(index, driver) for index in range(count)])
    except pynvml.NVMLError as fault:
        absent = {pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED}
        if fault.value in absent:
            return []
        raise NvmlFault(str(fault)) from fault


def _visible(gpus: list[Gpu]) -> list[Gpu]:
    """The GPUs that CUDA_VISIBLE_DEVICES names, in its order, which is CUDA's numbering.

    An entry is an index or the beginning of a UUID; CUDA ignores everything from the first invalid
    entry on.
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


def _read(index: int, driver: str) -> Gpu:
    import pynvml

    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    major, minor = pynvml.nvmlDeviceGetCudaComputeCapability(handle)

    def ask(function: str, *args: object) -> int | None:
        try:
            return int(getattr(pynvml, function)(handle, *args))
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
        mig=_is_split(handle),
    )


def _is_split(handle: object) -> bool:
    """Whether MIG is on; NVML raises "not supported" for a GPU without MIG."""
    import pynvml

    try:
        return int(pynvml.nvmlDeviceGetMigMode(handle)[0]) == 1
    except pynvml.NVMLError:
        return False


def process_name(pid: int) -> str:
    """A process as `python3 (4711)`, or `process 4711` where its name may not be read."""
    try:
        name = (Path("/proc") / str(pid) / "comm").read_text(errors="replace").strip()
    except OSError:
        return f"process {pid}"
    return f"{name} ({pid})"


def hidden_by_environment(gpus: Sequence[Gpu]) -> str:
    """The value of CUDA_VISIBLE_DEVICES if it is why `gpus` is empty; else an empty string."""
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return wanted if wanted.strip() and not gpus else ""


def idlest(gpus: list[Gpu]) -> Gpu:
    """The GPU with the fewest processes, then the lowest utilization, then the lowest index.

    Raises ValueError when `gpus` is empty.
    """
    return min(gpus, key=lambda g: (g.processes or 0, g.utilization or 0, g.index))
