"""What a GPU really reaches: its bandwidth and matrix rates, measured once and kept.

Kept in a file per GPU, driver and torch, since each may change them. `workbench doctor --measure`
measures anew.
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
from workbench.measure.gpus import Gpu, list_gpus
from workbench.measure.gpuwatch import gpu_behind, hot
from workbench.measure.keeping import keep, kept

JOB_MODULE = "workbench.measure.ceilings_job"
"""Worth preloading in a workshop's forkservers."""

_SECONDS = 60.0
"""For one measurement: about three seconds on a free GPU, and a cold start of CUDA."""
_LIMITS = Limits(wall_seconds=_SECONDS, memory_bytes=32 << 30)


class Wanted(Struct, frozen=True, kw_only=True):
    """What the worker is asked for; the defaults are a GPU's."""

    buffer_bytes: int = 2 << 30
    """Of each of two buffers: far beyond any L2."""
    side: int = 8192
    """Of the largest square matrices."""
    seconds: float = 0.05
    """Of device time for each call, in all its bursts."""
    bursts: int = 4
    """Of each call, the others' between them: some two seconds from the first to the last."""

    @property
    def burst_seconds(self) -> float:
        """Of one burst."""
        return self.seconds / self.bursts


class Rates(Struct, frozen=True, kw_only=True):
    """What the worker answers."""

    copy_gbps: float
    read_gbps: float
    matrix_tflops: dict[str, float]
    missing: dict[str, str] = {}
    """Dtypes that could not be multiplied, and what torch said."""


class Ceilings(Struct, frozen=True, kw_only=True):
    """The best rates that one GPU showed on random data."""

    uuid: str
    gpu: str
    driver: str
    torch: str
    measured: str
    """UTC, ISO 8601."""
    copy_gbps: float
    """Read plus written, 1e9 bytes a second."""
    read_gbps: float
    """Read alone."""
    matrix_tflops: dict[str, float]
    """Dense, by `float32` (IEEE), `tf32`, `float16`, `bfloat16`, `float8`, `float64`, `int8`."""
    missing: dict[str, str] = {}
    """Dtypes that torch would not multiply here, and why."""
    raised: dict[str, str] = {}
    """Of rates that a timing has shown to be higher than was measured, by field or dtype:
    `gemm to 769 TFLOP/s on 2026-11-29, measured 708`."""

    @property
    def source(self) -> str:
        """As reports name it: `measured ceiling, 2026-11-29`."""
        return f"measured ceiling, {self.measured[:10]}"

    def source_of(self, *names: str) -> str:
        """The same for some of its rates: `ceiling raised by gemm to 769 TFLOP/s ...`."""
        told = [self.raised[name] for name in names if name in self.raised]
        return f"ceiling raised by {told[0]}" if told else self.source

    def applied(self, target: Target) -> Target:
        """The target with these rates in place of the datasheet's, where they were measured.

        A vector unit's own rate is not measured: IEEE products of a library stay below it.
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
    """What was measured before on this GPU, with this driver and torch; None when nothing was."""
    return kept(_file(gpu), Ceilings)


def known_or_measured(device_index: int, workshop: Workshop) -> Ceilings | None:
    """The ceilings of the GPU that `device_index` means, measured now if never before.

    To be called while the GPU is held alone. None where NVML does not show the GPU: nothing could
    be kept for it. Raises WorkbenchError when they cannot be measured.
    """
    gpu = gpu_behind(device_index)
    if gpu is None:
        return None
    return known_ceilings(gpu) or measure_ceilings(gpu, workshop)


def measure_ceilings(gpu: Gpu, workshop: Workshop) -> Ceilings:
    """Measure, and keep unless the GPU was too hot to say. Hold its lock alone meanwhile.

    Raises WorkbenchError when no worker starts or it does not answer.
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
        keep(_file(gpu), ceilings)
    return ceilings


def keep_raised(device_index: int, ceilings: Ceilings) -> None:
    """Keep ceilings that a timing has raised, for the sessions after this one."""
    gpu = gpu_behind(device_index)
    if gpu is not None:
        keep(_file(gpu), ceilings)


def measure_rates(workshop: Workshop, wanted: Wanted) -> Rates:
    """What the workshop's device reaches, in a worker of our own code alone.

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
