"""What `doctor` says about each GPU: its model, its present state, and the rates it has reached."""

from typing import TYPE_CHECKING

from workbench.errors import WorkbenchError
from workbench.measure.gpus import Gpu
from workbench.measure.gpuwatch import held_by

if TYPE_CHECKING:
    from workbench.measure.ceilings import Ceilings


def identity(gpu: Gpu) -> str:
    """`NVIDIA H200, sm90, driver 580.159, 140 GiB, GPU-1a2b`."""
    memory = f"{gpu.memory_bytes >> 30} GiB"
    return f"{gpu.name}, {gpu.target}, driver {gpu.driver}, {memory}, {gpu.uuid}"


def standing(gpu: Gpu) -> str:
    """`no other process, 1980 MHz, 34 C, no uncorrected memory errors`."""
    if gpu.processes is None:
        others = "other processes unknown"
    else:
        others = ", ".join(gpu.busy) or "no other process"
    held = ", ".join(held_by(gpu.throttle_reasons))
    parts = [
        others,
        f"{gpu.sm_clock_mhz} MHz" if gpu.sm_clock_mhz is not None else "clock unknown",
        f"held down by {held}" if held else "",
        f"{gpu.temperature_c} C" if gpu.temperature_c is not None else "temperature unknown",
        _ecc(gpu.ecc_errors),
    ]
    return ", ".join(part for part in parts if part)


def trouble(gpu: Gpu) -> str:
    """What to do about the state it is in; empty when timing may begin."""
    if gpu.mig:
        return "it is split into slices (MIG): have that switched off, or use another GPU"
    if gpu.ecc_errors:
        return "memory errors: have an administrator check it before you trust its numbers"
    if gpu.processes:
        return "times need the GPU alone: wait for the other processes, or use another GPU"
    return ""


def reached(ceilings: "Ceilings") -> str:
    """`copy 4271 GB/s, read 4400 GB/s; TFLOP/s: bfloat16 790, ...; measured 2026-11-29`."""
    rates = ", ".join(f"{name} {rate:.4g}" for name, rate in ceilings.matrix_tflops.items())
    missing = ", ".join(ceilings.missing)
    without = f"; this torch cannot multiply: {missing}" if missing else ""
    raised = "".join(f"; ceiling raised by {says}" for says in ceilings.raised.values())
    return (
        f"copy {ceilings.copy_gbps:.4g} GB/s, read {ceilings.read_gbps:.4g} GB/s; "
        f"TFLOP/s: {rates}{without}; measured {ceilings.measured[:10]}{raised}"
    )


def ceilings_of(index: int, gpu: Gpu, *, measure: bool) -> "Ceilings | None":
    """What is kept, or with `measure` what is found now, the GPU held alone; None where nothing is.

    `index` as CUDA counts. Raises WorkbenchError when they cannot be measured.
    """
    from workbench.isolation.workshop import Workshop
    from workbench.measure.ceilings import JOB_MODULE, known_ceilings, measure_ceilings
    from workbench.measure.gpulock import gpu_lock

    if not measure:
        return known_ceilings(gpu)
    with gpu_lock(gpu.uuid), Workshop(device_index=index, preload=(JOB_MODULE,)) as workshop:
        return measure_ceilings(gpu, workshop)


def told(index: int, gpu: Gpu, *, measure: bool) -> tuple[str, str]:
    """What `doctor` says of its ceilings, and what to do; the latter empty when they are known."""
    try:
        known = ceilings_of(index, gpu, measure=measure)
    except WorkbenchError as fault:
        return f"not measured: {fault.what}", fault.todo
    if known is not None:
        return reached(known), ""
    return "never measured: limits are the datasheet's until a first timing", "doctor --measure"


def together() -> tuple[str, str]:
    """Which GPUs `run --device cuda:all` would use, or why not, and what to do."""
    from workbench.engine.devices import choose_places

    try:
        places = choose_places("cuda:all", "")
    except WorkbenchError as fault:
        return fault.what, fault.todo
    names = ",".join(f"cuda:{place.index}" for place in places)
    return f"run --device cuda:all uses {names}; fewer by name, as cuda:0,cuda:1", ""


def _ecc(errors: int | None) -> str:
    if errors is None:
        return "ECC off or unknown"
    return f"{errors or 'no'} uncorrected memory errors"
