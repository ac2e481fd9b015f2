"""Where host code believes that its tensors lie when no GPU is there, and at what address.

All of them live on the CPU. What came from the judge, or was asked for on `cuda`, says that it is
on `cuda:0`; what the candidate makes without naming a device says that it is on the host, as it
would be, and no kernel takes it.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten
from torch.utils.weak import WeakIdKeyDictionary

from workbench.kernels.untyped import Untyped

CUDA = torch.device("cuda", 0)
_HOST = torch.device("cpu")
_TORCH = str(Path(torch.__file__).parent)
_BLOCK = 512
"""Bytes to which torch's CUDA allocator aligns a storage (c10/cuda/CUDACachingAllocator.cpp)."""
_HOST_BLOCK = 64
"""The same of its CPU allocator."""
_FIRST_ADDRESS = 0x7F00_0000_0000
_ADDRESSES = 1 << 40
"""Where the driver maps device memory: seen on an H200 (driver 580)."""

_made_on_host: Untyped = WeakIdKeyDictionary()
"""Tensors that lie in the host's memory, in this process."""


_told: set[torch.dtype] = set()
"""Of tensors whose address host code has asked for, in this process."""


def addresses_told() -> bool:
    """Whether a kernel may have addresses that are no pointer's, and not those of this process."""
    return bool(_told)


def on_host(tensor: torch.Tensor) -> bool:
    """Whether host code made a tensor without asking for the GPU."""
    return tensor in _made_on_host


def move_to_gpu(model: nn.Module) -> None:
    """What `model.to("cuda")` does: parameters and buffers go there, other attributes stay."""
    for tensor in (*nn.Module.parameters(model), *nn.Module.buffers(model)):
        _made_on_host.pop(tensor, None)


class HostDevice(TorchFunctionMode):
    """Answers for the device of tensors; whatever is asked of `cuda` is done on `host`.

    `source` is the candidate's file; without it every tensor says that it is on the GPU.
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
        """The result, with where it lies noted."""
        given = _tensors((args, kwargs)) if args or kwargs else []
        if device is not None:
            host = device.type == "cpu"
        elif given:
            host = all(map(on_host, given))
        else:
            host = self._asks()
        if func in _MOVES and out is args[0] and host != on_host(out):
            out = out.clone()  # on the CPU it is there already
        if host:
            for tensor in [out] if isinstance(out, torch.Tensor) else _tensors(out):
                if all(tensor is not one for one in given):
                    _made_on_host[tensor] = True
        return out

    def _asks(self) -> bool:
        """Whether the candidate's own file calls, not triton, ours or the judge's."""
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
    """Files on the stack, from the inside, without torch's and this one."""
    frame = sys._getframe(1)  # noqa: SLF001 - no public walk up the stack
    while frame is not None:
        name = frame.f_code.co_filename
        if name != __file__ and not name.startswith(_TORCH):
            yield name
        frame = frame.f_back  # type: ignore[assignment]  # None ends the walk


def _device_in(args: tuple[Untyped, ...], kwargs: dict[str, Untyped]) -> torch.device | None:
    """The device that a call names; None where it follows its tensors."""
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
    return vars(torch._C.TensorBase)[name].__get__  # noqa: SLF001


def _address(tensor: torch.Tensor, asked: bool) -> int:
    """Where a GPU might have put it: storages aligned as there, apart from each other as here."""
    real = int(tensor.data_ptr())
    if not asked or on_host(tensor):
        return real
    _told.add(tensor.dtype)
    base = int(tensor.untyped_storage().data_ptr())
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
"""What host code can ask of a tensor that tells a CPU from a GPU."""
_MOVES = (torch.Tensor.to, torch.Tensor.cuda, torch.Tensor.type_as)
