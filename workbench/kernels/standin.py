"""Stands in for a GPU where there is none, so that host code believes it runs on the target.

A candidate's host code calls `torch.cuda.get_device_properties`, allocates on `"cuda"`, checks
`x.is_cuda` and sizes grids by the number of SMs. Inside `standing_in` all of this answers for the
target, while tensors really live on the CPU or the meta device.
"""

import contextlib
import types
from collections.abc import Callable, Iterator

import torch
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.runtime.driver import driver as triton_driver

from workbench.kernels.faults import CannotJudge
from workbench.kernels.standin_operators import operators_called_directly
from workbench.kernels.standin_tensors import CUDA as _CUDA
from workbench.kernels.standin_tensors import HostDevice
from workbench.kernels.target import Target
from workbench.kernels.untyped import Untyped


class StandInDriver(DriverBase):  # type: ignore[misc]  # triton is untyped
    """A triton driver that knows the target and launches nothing."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.target = target
        self.utils: Untyped = _Utils(target)

    @classmethod
    def is_active(cls) -> bool:
        """False, so that triton never selects this driver by itself: `standing_in` sets it."""
        return False

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Unused: nothing is ever called through C."""
        return ty

    def get_current_device(self) -> int:
        """The first device; its number is a key per target: triton's caches never mix two."""
        return _Number.of(self.target)

    def get_current_stream(self, device: object = None) -> int:  # noqa: ARG002 -- triton's signature
        """The default stream."""
        return 0

    def get_current_target(self) -> GPUTarget:
        """The target to compile for, in triton's terms."""
        return GPUTarget("cuda", self.target.arch, 32)

    def get_device_capability(self, device: object = None) -> tuple[int, int]:  # noqa: ARG002 -- triton's signature
        """Major and minor compute capability."""
        return divmod(self.target.arch, 10)

    def get_active_torch_device(self) -> torch.device:
        """The device on which host code is told to allocate."""
        return _CUDA

    def get_device_interface(self) -> types.ModuleType:
        """The module of device calls, which `standing_in` patches."""
        return torch.cuda

    def get_benchmarker(self) -> Callable[..., Untyped]:
        """Not available: nothing can be timed here, and `autotune.choosing` replaces timing."""
        raise RuntimeError("no GPU to time on")


class _Number(int):
    """Zero, and yet another key of a dict for every target."""

    target = ""

    @classmethod
    def of(cls, target: Target) -> "_Number":
        """The number of the only device."""
        number = cls(0)
        number.target = target.name
        return number

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _Number):
            return self.target == other.target
        return other == 0

    def __hash__(self) -> int:
        return hash(0)


class _Utils:
    def __init__(self, target: Target) -> None:
        self._target = target

    def get_device_properties(self, device: object) -> dict[str, int]:  # noqa: ARG002 -- triton's signature
        target = self._target
        return {
            "max_shared_mem": target.shared_per_program,
            "max_num_regs": target.regs,
            "multiprocessor_count": target.sms,
            "warpSize": 32,
            "sm_clock_rate": target.clock_mhz * 1000,
            # Any clock and width whose product, 2 * kHz * bits, is the datasheet's bandwidth.
            "mem_clock_rate": int(target.dram_peak_gbps * 1e6 * 8 / (2 * _BUS_BITS)),
            "mem_bus_width": _BUS_BITS,
        }


_BUS_BITS = 6144
"""Bus width that the stand-in reports: an H200's."""
_CUDA_VERSION = "13.0"
"""CUDA version that the stand-in's torch reports."""


@contextlib.contextmanager
def _cuda_build() -> Iterator[None]:
    """Make torch's version numbers those of a CUDA build, since they reveal a CPU build."""
    places = ((torch, "__version__"), (torch.version, "__version__"), (torch.version, "cuda"))
    before = [getattr(place, name) for place, name in places]
    release = str(torch.__version__).split("+", maxsplit=1)[0]
    told = type(torch.__version__)(f"{release}+cu{_CUDA_VERSION.replace('.', '')}")
    if torch.version.cuda is None:
        torch.__version__, torch.version.__version__ = told, str(told)
        torch.version.cuda = _CUDA_VERSION
    try:
        yield
    finally:
        for (place, name), value in zip(places, before, strict=True):
            setattr(place, name, value)


class _Properties(types.SimpleNamespace):
    """The answer of `torch.cuda.get_device_properties`."""

    def __getattr__(self, name: str) -> object:
        """Refuse to judge rather than reveal by an AttributeError that there is no GPU."""
        if name.startswith("__"):
            raise AttributeError(name)
        raise CannotJudge(f"what host code does by the GPU's {name}")

    def __repr__(self) -> str:
        """Refuse to judge, as for a property that is not known."""
        raise CannotJudge("what host code does by the text of the GPU's properties")


def _properties(target: Target) -> _Properties:
    major, minor = divmod(target.arch, 10)
    return _Properties(
        name=target.device,
        major=major,
        minor=minor,
        multi_processor_count=target.sms,
        total_memory=target.memory_bytes,
        L2_cache_size=target.l2_bytes,
        shared_memory_per_block=48 << 10,
        shared_memory_per_block_optin=target.shared_per_program,
        shared_memory_per_multiprocessor=target.shared_per_sm,
        regs_per_multiprocessor=target.regs,
        max_threads_per_multi_processor=target.warps * 32,
        max_threads_per_block=target.threads_per_program,
        warp_size=32,
        clock_rate=target.clock_mhz * 1000,
    )


class _Guard(contextlib.nullcontext[None]):
    """Replaces the contexts `torch.cuda.device(...)`, `device_of(...)` and `stream(...)`."""

    def __init__(self, *_: object) -> None:
        super().__init__()


@contextlib.contextmanager
def _marked(*_args: object, **_kwargs: object) -> Iterator[None]:
    """Replaces `torch.cuda.nvtx.range`, a context and a decorator."""
    yield


_RANGES: dict[str, object] = {
    "range": _marked,
    **dict.fromkeys(("mark", "range_pop", "range_push"), lambda *_args, **_kwargs: None),
}
"""Replacements for functions of `torch.cuda.nvtx`, which a CPU build of torch lacks."""


def _answers(target: Target) -> dict[str, object]:
    """Replacements for functions of torch.cuda, by name."""
    stream = types.SimpleNamespace(
        cuda_stream=0, synchronize=lambda: None, wait_stream=lambda _: None, device=_CUDA
    )
    memory = target.memory_bytes
    constant: dict[str, object] = {
        "is_available": True,
        "device_count": 1,
        "current_device": 0,
        "get_device_capability": divmod(target.arch, 10),
        "get_device_name": target.device,
        "get_device_properties": _properties(target),
        "current_stream": stream,
        "default_stream": stream,
        "is_bf16_supported": True,
        "is_current_stream_capturing": False,
        "mem_get_info": (memory, memory),
        "memory_allocated": 0,
        "synchronize": None,
        "set_device": None,
        "empty_cache": None,
    }
    answers: dict[str, object] = {name: _always(value) for name, value in constant.items()}
    answers.update(device=_Guard, device_of=_Guard, stream=_Guard)
    return answers


def _always(value: object) -> Callable[..., object]:
    return lambda *_args, **_kwargs: value


@contextlib.contextmanager
def standing_in(
    target: Target, *, host: str = "cpu", driver: StandInDriver | None = None, source: str = ""
) -> Iterator[None]:
    """Let host code believe that it runs on `target` until the block ends.

    `host` is the device that tensors asked for on `cuda` really get: `cpu` or `meta`. `source` is
    the candidate's file: tensors that it makes without naming a device are then tracked as host
    tensors. Everything is restored on exit.
    """
    answers = _answers(target)
    places = [(torch.cuda, n, a) for n, a in answers.items()]
    places += [(torch.cuda.nvtx, n, a) for n, a in _RANGES.items()]
    before = [getattr(place, name) for place, name, _ in places]
    active = triton_driver._active  # noqa: SLF001 -- triton has no public way to look
    triton_driver.set_active(driver or StandInDriver(target))
    for place, name, answer in places:
        setattr(place, name, answer)
    try:
        with (
            HostDevice(torch.device(host), source),
            _cuda_build(),
            operators_called_directly(source),
        ):
            yield
    finally:
        for (place, name, _), function in zip(places, before, strict=True):
            setattr(place, name, function)
        triton_driver._active = active  # noqa: SLF001 -- triton has no public name for it
