"""The bandwidth and matrix rates that a GPU really reaches, measured once and cached.

The cache has a file for each GPU, driver and torch version, since each may change the rates.
`workbench doctor --measure` measures them again.
"""

import hashlib
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from workbench import paths
from workbench.errors import WorkbenchError
from workbench.isolation.outcome import WorkerFault
from workbench.isolation.records import Flavor, Limits
from workbench.isolation.workshop import Workshop
from workbench.kernels.target import Target
from workbench.measure.cache import read_cached, write_cached
from workbench.measure.gpus import Gpu, list_gpus
from workbench.measure.gpuwatch import gpu_behind, hot

JOB_MODULE = "workbench.measure.ceilings_job"
"""The worker's module; preload it in a workshop's forkservers to start faster."""

_SECONDS = 60.0
"""Deadline of one measurement, which takes some three seconds and a cold start of CUDA."""
_LIMITS = Limits(wall_seconds=_SECONDS, memory_bytes=32 << 30)


class Wanted(Struct, frozen=True, kw_only=True):
    """The request to the worker; the defaults suit a GPU."""

    buffer_bytes: int = 2 << 30
    """Size of each of the two buffers: far larger than any L2."""
    side: int = 8192
    """Rows and columns of the largest square matrices."""
    seconds: float = 0.05
    """Device time for each call, over all its bursts."""
    bursts: int = 4
    """Bursts of each call. Other calls run in between, so the bursts span some two seconds."""

    @property
    def burst_seconds(self) -> float:
        """Device time of one burst."""
        return self.seconds / self.bursts


class Rates(Struct, frozen=True, kw_only=True):
    """The worker's answer; the fields mean the same as those of `Ceilings`."""

    copy_gbps: float
    read_gbps: float
    matrix_tflops: dict[str, float]
    missing: dict[str, str] = {}


class Ceilings(Struct, frozen=True, kw_only=True):
    """The best rates that one GPU showed on random data."""

    uuid: str
    gpu: str
    driver: str
    torch: str
    measured: str
    """UTC, ISO 8601."""
    copy_gbps: float
    """Bandwidth of a copy, bytes read plus bytes written, in 1e9 bytes a second."""
    read_gbps: float
    """Bandwidth of reading alone, in 1e9 bytes a second."""
    matrix_tflops: dict[str, float]
    """Rate of dense products in 1e12 operations a second, by `float32` (IEEE), `tf32`, `float16`,
    `bfloat16`, `float8`, `float64` and `int8`."""
    missing: dict[str, str] = {}
    """Dtypes that torch would not multiply here, each with torch's reason."""
    raised: dict[str, str] = {}
    """Rates that a later timing exceeded, by field or dtype:
    `gemm to 769 TFLOP/s on 2026-11-29, measured 708`."""

    @property
    def source(self) -> str:
        """The source as reports name it: `measured ceiling, 2026-11-29`."""
        return f"measured ceiling, {self.measured[:10]}"

    def source_of(self, *names: str) -> str:
        """The source of the named rates: `ceiling raised by gemm to 769 TFLOP/s ...`."""
        told = [self.raised[name] for name in names if name in self.raised]
        return f"ceiling raised by {told[0]}" if told else self.source

    def applied(self, target: Target) -> Target:
        """The target with measured rates in place of the datasheet's.

        The fp32 vector rate stays the datasheet's: a library's IEEE products stay below it.
        """
        sheet = target.tensor_tflops
        measured = {name: rate for name, rate in self.matrix_tflops.items() if name in sheet}
        return structs.replace(
            target,
            dram_gbps=self.copy_gbps,
            dram_peak_gbps=self.copy_gbps,
            tensor_tflops={**sheet, **measured},
        )


def known_ceilings(gpu: Gpu) -> Ceilings | None:
    """The cached ceilings of this GPU, driver and torch; None when there are none."""
    return read_cached(_file(gpu), Ceilings)


def known_or_measured(device_index: int, workshop: Workshop) -> Ceilings | None:
    """The ceilings of the GPU at `device_index`, measured now if they are not cached.

    The caller must hold the GPU alone. None where NVML does not show the GPU, since there would be
    no name to cache them under. Raises WorkbenchError when they cannot be measured.
    """
    gpu = gpu_behind(device_index)
    if gpu is None:
        return None
    return known_ceilings(gpu) or measure_ceilings(gpu, workshop)


def measure_ceilings(gpu: Gpu, workshop: Workshop) -> Ceilings:
    """Measure a GPU's ceilings, and cache them unless its cooling or power held it back.

    The caller must hold the GPU's lock alone. Raises WorkbenchError when no worker starts or it
    does not answer.
    """
    rates = measure_rates(workshop, Wanted())
    ceilings = Ceilings(
        uuid=gpu.uuid,
        gpu=gpu.name,
        driver=gpu.driver,
        torch=_torch(),
        measured=datetime.now(UTC).isoformat(timespec="seconds"),
        copy_gbps=rates.copy_gbps,
        read_gbps=rates.read_gbps,
        matrix_tflops=rates.matrix_tflops,
        missing=rates.missing,
    )
    now = {one.uuid: one for one in list_gpus()}.get(gpu.uuid)
    if now is None or not hot(now.throttle_reasons):
        write_cached(_file(gpu), ceilings)
    return ceilings


def keep_raised(device_index: int, ceilings: Ceilings) -> None:
    """Cache ceilings that a timing has raised, for later sessions."""
    gpu = gpu_behind(device_index)
    if gpu is not None:
        write_cached(_file(gpu), ceilings)


def measure_rates(workshop: Workshop, wanted: Wanted) -> Rates:
    """Measure the rates of the workshop's device, in a worker that runs no candidate code.

    Raises WorkbenchError when no worker starts or it does not answer.
    """
    with workshop.worker(Flavor.REFERENCE, _LIMITS) as worker:
        try:
            reply = worker.call(f"{JOB_MODULE}:measure", msgspec.to_builtins(wanted))
            return msgspec.convert(reply.body, Rates)
        except (WorkerFault, msgspec.ValidationError) as fault:
            raise WorkbenchError(
                f"the GPU's ceilings could not be measured: {fault}",
                todo="run `workbench doctor`; limits are the datasheet's meanwhile",
            ) from fault


def _torch() -> str:
    from importlib import metadata

    return metadata.version("torch")


def _file(gpu: Gpu) -> Path:
    parts = "\n".join((gpu.uuid, gpu.driver, _torch()))
    name = hashlib.sha256(parts.encode()).hexdigest()[:16]
    return paths.cache_home() / "ceilings" / f"{name}.json"
