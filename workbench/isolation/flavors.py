"""What each flavor's forkserver starts with: modules, environment variables, confinement."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from workbench.errors import WorkbenchError
from workbench.isolation.grants import toolchain
from workbench.isolation.records import Flavor
from workbench.isolation.sandbox import Confinement
from workbench.isolation.zygote import Setup

_PRELOAD = ("torch", "triton", "workbench.isolation.tensors")
_DYNAMO = "torch._dynamo"
"""Asked for by `torch.use_deterministic_algorithms`, `torch.compile` and others: two seconds once,
not in every worker. It replaces `torch.manual_seed`, which nobody should see happen midway."""

_INHERITED = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "CUDA_HOME", "CC")
_ON_GPU = (Flavor.CUDA, Flavor.REFERENCE)
_CALLING = (Flavor.CUDA, Flavor.INTERPRET)
"""Where a candidate is compared and timed: hashes of texts, and with them the order of sets, are
as unpredictable as anywhere else, so that a file cannot tell the gate by them."""


def setup_of(
    flavor: Flavor,
    *,
    on_gpu: bool,
    preload: Sequence[str],
    hidden: Sequence[str],
    share_device_memory: bool,
    namespaces: bool,
) -> Setup:
    """First word to a zygote of this flavor. WorkbenchError for CUDA where no GPU was chosen."""
    gpu = on_gpu and flavor in _ON_GPU
    if flavor is Flavor.CUDA and not gpu:
        raise WorkbenchError("a CUDA worker was asked for where no device was chosen")
    ours: tuple[str, ...] = () if flavor is Flavor.BARE else _PRELOAD
    if flavor not in (Flavor.BARE, Flavor.COMPILE):
        ours = (*ours, _DYNAMO)
    return Setup(
        flavor=flavor,
        device="cuda:0" if gpu else "cpu",
        preload=(*ours, *preload),
        confinement=Confinement(
            roots=tuple(map(str, toolchain(os.environ))),
            hidden=tuple(hidden),
            processes=gpu or flavor is Flavor.COMPILE,
            gpu=gpu,
            share_device_memory=gpu and share_device_memory,
            namespaces=namespaces and not (gpu and share_device_memory),
        ),
    )


def environment_of(setup: Setup, device_index: int | None) -> dict[str, str]:
    """All that a zygote's environment holds: an allow-list of the judge's variables and our own."""
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    visible = ""
    if setup.confinement.gpu and device_index is not None:
        visible = visible_device(device_index, os.environ)
    environment |= {
        "USER": "worker",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": visible,
        # The judge's own order, so that a worker finds the very modules the judge would.
        "PYTHONPATH": os.pathsep.join(str(Path(path).absolute()) for path in sys.path if path),
    }
    if setup.confinement.gpu:
        # Asked whether there is a GPU, torch must not start the driver before the fork.
        environment["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    if setup.flavor not in _CALLING:
        environment["PYTHONHASHSEED"] = "0"
    if setup.flavor is Flavor.INTERPRET:
        environment["TRITON_INTERPRET"] = "1"
    return environment


def visible_device(index: int, environment: Mapping[str, str]) -> str:
    """What CUDA_VISIBLE_DEVICES must say for the device `index` of those visible to us.

    WorkbenchError where that variable is set and names too few.
    """
    seen = environment.get("CUDA_VISIBLE_DEVICES")
    if seen is None:
        return str(index)
    names = [name for name in seen.split(",") if name.strip()]
    if index >= len(names):
        raise WorkbenchError(
            f"there is no device {index}",
            where=f"CUDA_VISIBLE_DEVICES={seen}",
            todo=f"name one of the {len(names)} that it lists, counted from 0",
        )
    return names[index].strip()
