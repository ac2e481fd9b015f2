"""Tracks on which device, and at what address, host code believes that its tensors are.

All of them live on the CPU. Tensors from the judge, or made on `cuda`, claim to be on `cuda:0`.
Tensors that the candidate makes without naming a device claim to be on the host, as they would be
on a GPU machine, and no kernel accepts them.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten
from torch.utils.weak import WeakIdKeyDictionary

from workbench.kernels.module_state import tensors_of
from workbench.kernels.storages import storage_address
from workbench.kernels.untyped import Untyped

CUDA = torch.device("cuda", 0)
_HOST = torch.device("cpu")
_TORCH = str(Path(torch.__file__).parent)
_BLOCK = 512
"""Bytes to which torch's CUDA allocator aligns a storage (c10/cuda/CUDACachingAllocator.cpp)."""
_HOST_BLOCK = 64
"""Bytes to which torch's CPU allocator aligns a storage (c10/core/alignment.h)."""
_FIRST_ADDRESS = 0x7F00_0000_0000
_ADDRESSES = 1 << 40
"""Start and size of the range where the driver maps device memory: seen on an H200 (driver 580)."""

_made_on_host: Untyped = WeakIdKeyDictionary()
"""Tensors of this process that claim to be in the host's memory."""

_told: set[torch.dtype] = set()
"""Dtypes of tensors whose address host code has asked for in this process."""


def addresses_told() -> bool:
    """Whether host code has got a made-up address, which it could pass to a kernel as a number."""
    return bool(_told)


def on_host(tensor: torch.Tensor) -> bool:
    """Whether a tensor claims to be in the host's memory."""
    return tensor in _made_on_host


def move_to_gpu(model: nn.Module) -> None:
    """Do what `model.to("cuda")` does: parameters and buffers move, other attributes stay."""
    for tensor in tensors_of(model):
        _made_on_host.pop(tensor, None)


class HostDevice(TorchFunctionMode):
    """A mode that answers for the device of tensors, and does on `host` what is asked of `cuda`.

    `source` is the candidate's file; without it every tensor claims to be on the GPU.
    """

    def __init__(self, host: torch.device, source: str) -> None:
        super().__init__()
        self._host = host
        self._source = source

    def __torch_function__(
        self,
        func: Callable[..., Untyped],
        types: Untyped,
        args: tuple[Untyped, ...] = (),
        kwargs: dict[str, Untyped] | None = None,
    ) -> Untyped:
        kwargs = kwargs or {}
        asked = _QUESTIONS.get(func) if len(args) == 1 and not kwargs else None
        if asked is not None:
            return asked(args[0], self._asks())
        moves = func in _MOVES
        device = _device_in(args if moves else (), kwargs)
        own_args = tuple(self._redirect(a, moves) for a in args)
        own_kwargs = {k: self._redirect(v, k == "device") for k, v in kwargs.items()}
        if func == torch.Tensor.cuda:
            out, device = args[0], CUDA
        else:
            out = func(*own_args, **own_kwargs)
        return self._placed(func, out, args, kwargs, device) if self._source else out

    def _placed(
        self,
        func: Callable[..., Untyped],
        out: Untyped,
        args: tuple[Untyped, ...],
        kwargs: dict[str, Untyped],
        device: torch.device | None,
    ) -> Untyped:
        """Note on which device the result claims to be; return the result or a copy of it."""
        given = _tensors((args, kwargs)) if args or kwargs else []
        if device is not None:
            host = device.type == "cpu"
        elif given:
            host = all(map(on_host, given))
        else:
            host = self._asks()
        if func in _MOVES and out is args[0] and host != on_host(out):
            out = out.clone()  # a real move would have copied; on the CPU it returned its argument
        if host:
            for tensor in [out] if isinstance(out, torch.Tensor) else _tensors(out):
                if all(tensor is not one for one in given):
                    _made_on_host[tensor] = True
        return out

    def _asks(self) -> bool:
        """Whether the caller is the candidate's own file, rather than triton or our code."""
        return bool(self._source) and next(_callers(), "") == self._source

    def _redirect(self, value: Untyped, may_be_text: bool) -> Untyped:
        if isinstance(value, torch.device) and value.type == "cuda":
            return self._host
        if may_be_text and isinstance(value, str) and value.split(":")[0] == "cuda":
            return self._host
        if may_be_text and isinstance(value, int) and not isinstance(value, bool):
            return self._host
        return value


def _callers() -> Iterator[str]:
    """Files on the stack, innermost first, without torch's and this one."""
    frame = sys._getframe(1)  # noqa: SLF001 -- no public walk up the stack
    while frame is not None:
        name = frame.f_code.co_filename
        if name != __file__ and not name.startswith(_TORCH):
            yield name
        frame = frame.f_back  # type: ignore[assignment]  # None ends the walk


def _device_in(args: tuple[Untyped, ...], kwargs: dict[str, Untyped]) -> torch.device | None:
    """The device that a call names; None where the result is on its arguments' device."""
    named = kwargs.get("device")
    for value in (named, *args[1:]):
        if isinstance(value, torch.Tensor):
            return _HOST if on_host(value) else CUDA
        if isinstance(value, torch.device):
            return _HOST if value.type == "cpu" else CUDA
        if isinstance(value, str) or (type(value) is int):
            return _HOST if str(value).startswith("cpu") else CUDA
    return None


def _tensors(tree: Untyped) -> list[torch.Tensor]:
    return [leaf for leaf in tree_flatten(tree)[0] if isinstance(leaf, torch.Tensor)]


def _getter(name: str) -> Untyped:
    return vars(torch._C.TensorBase)[name].__get__  # noqa: SLF001 -- torch has no public name for it


def _address(tensor: torch.Tensor, asked: bool) -> int:
    """An address as on a GPU, with its alignment; distinct storages keep distinct addresses."""
    real = int(tensor.data_ptr())
    if not asked or on_host(tensor):
        return real
    _told.add(tensor.dtype)
    base = storage_address(tensor)
    return _FIRST_ADDRESS + base // _HOST_BLOCK * _BLOCK % _ADDRESSES + real - base


def _type(tensor: torch.Tensor, _asked: bool) -> str:
    name = str(tensor.type())
    return name if on_host(tensor) else name.replace("torch.", "torch.cuda.", 1)


_QUESTIONS: dict[Untyped, Callable[[torch.Tensor, bool], object]] = {
    torch.Tensor.device.__get__: lambda tensor, _: _HOST if on_host(tensor) else CUDA,
    _getter("is_cuda"): lambda tensor, _: not on_host(tensor),
    _getter("is_cpu"): lambda tensor, _: on_host(tensor),
    torch.Tensor.get_device: lambda tensor, _: -1 if on_host(tensor) else 0,
    torch.Tensor.type: _type,
    torch.Tensor.data_ptr: _address,
}
"""Answers to what host code can ask of a tensor to tell a CPU from a GPU."""
_MOVES = (torch.Tensor.to, torch.Tensor.cuda, torch.Tensor.type_as)
