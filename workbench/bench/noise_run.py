"""Runs `bench noise` on this machine's GPU, and keeps the results line by line."""

import datetime as dt
import importlib.metadata
from collections.abc import Iterator
from pathlib import Path

from workbench.bench.noise import Bench, on_gpu
from workbench.bench.noise_kernels import NOISE_KERNELS
from workbench.bench.noise_record import Head, Line, NoiseFile
from workbench.bench.noise_sides import RULE
from workbench.engine.devices import Place
from workbench.gate.timing.stage import JOB_MODULES
from workbench.isolation.workshop import Workshop
from workbench.measure.baselines import versions
from workbench.measure.gpuwatch import gpu_behind


def _versions(device_index: int) -> dict[str, str]:
    gpu = gpu_behind(device_index)
    if gpu is not None:
        return versions(gpu)
    return {name: importlib.metadata.version(name) for name in ("torch", "triton")}


def measure_noise(place: Place, keep: Path, seconds: float) -> Iterator[Line]:
    """Measure for about `seconds`, appending each line to `keep`.

    Raises WorkbenchError without a GPU, and when the file cannot be written.
    """
    doors = on_gpu(place)
    file = NoiseFile(keep)
    head = Head(
        date=dt.datetime.now(dt.UTC).date().isoformat(),
        gpu=place.device,
        versions=_versions(place.index or 0),
        rule=RULE,
    )
    file.add(head)
    yield head
    with Workshop(
        device_index=place.index, share_device_memory=True, preload=JOB_MODULES
    ) as workshop:
        for line in Bench(place, workshop, seconds, doors).lines(NOISE_KERNELS):
            file.add(line)
            yield line
