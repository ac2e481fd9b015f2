"""Fills lazy tensors with numbers using little memory: the same few pages are mapped repeatedly.

A kernel that is traced on zeros could skip its work where it finds zeros, and so look fast.
"""

import ctypes
import mmap
import os
import tempfile
from functools import cache
from pathlib import Path

import torch
from torch.utils._python_dispatch import _disable_current_modes

_CHUNK = 2 << 20
"""Bytes after which painted numbers repeat (ours): longer than the rows of most problems."""
_MAP_SHARED, _MAP_PRIVATE, _MAP_FIXED = 0x01, 0x02, 0x10
_READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE


COPIED = 4 << 20
"""Bytes up to which a tensor is filled by copying instead of by mapping pages (ours)."""


def fill(tensor: torch.Tensor, chunk: torch.Tensor) -> None:
    """Fill a tensor's memory, from its first to its last element, with repetitions of `chunk`.

    A large tensor is mapped to private pages of one file, which cost nothing until they are
    written; it must begin at a page boundary, as lazy memory does, and only a chunk of whole pages
    is mapped. Raises OSError where the system refuses to map them.
    """
    reach = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    with _disable_current_modes():
        flat = tensor.detach().as_strided((reach,), (1,), tensor.storage_offset())
        size = flat.nbytes
        mapped = 0
        if size > COPIED and not chunk.nbytes % mmap.PAGESIZE:
            mapped = size // mmap.PAGESIZE * mmap.PAGESIZE
            _map_over(flat.data_ptr(), mapped, chunk)
        done = mapped // chunk.itemsize
        rest = flat[done:]
        if rest.numel():
            places = torch.arange(done, reach) % chunk.numel()
            rest.copy_(chunk[places])


def _map_over(address: int, size: int, chunk: torch.Tensor) -> None:
    """Map private pages that repeat the chunk's bytes over `size` bytes from `address`."""
    with tempfile.TemporaryFile() as file:
        file.write(chunk.contiguous().view(torch.uint8).numpy().tobytes())
        file.flush()
        for place in range(address, address + size, chunk.nbytes):
            length = min(chunk.nbytes, address + size - place)
            flags = _MAP_PRIVATE | _MAP_FIXED
            got = _libc().mmap(place, length, _READ_WRITE, flags, file.fileno(), 0)
            if got != place:
                raise OSError("pages of numbers cannot be mapped")


def paint(tensor: torch.Tensor) -> None:
    """Map random numbers under a floating-point tensor of lazy memory; whole pages only.

    The pages are shared, so they take memory only once, and a store changes every repetition.
    Tensors of other dtypes stay as they are, since an integer may be an index. Where the system
    refuses to map, the zeros stay.
    """
    if not tensor.is_floating_point() or tensor.numel() == 0:
        return
    span = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    address = tensor.data_ptr()
    start = -(-address // mmap.PAGESIZE) * mmap.PAGESIZE
    end = (address + span * tensor.element_size()) // mmap.PAGESIZE * mmap.PAGESIZE
    file = _numbers(tensor.dtype) if end > start else -1
    if file < 0:
        return
    for place in range(start, end, _CHUNK):
        size = min(_CHUNK, end - place)
        if _libc().mmap(place, size, _READ_WRITE, _MAP_SHARED | _MAP_FIXED, file, 0) != place:
            return


@cache
def _numbers(dtype: torch.dtype) -> int:
    """Descriptor of a file of normally distributed numbers; -1 where none can be made."""
    count = _CHUNK // dtype.itemsize
    generator = torch.Generator().manual_seed(int.from_bytes(os.urandom(7)))
    # Outside the dispatch modes, so that the numbers are really drawn.
    with _disable_current_modes():
        drawn = torch.randn(count, generator=generator).to(dtype)
        data = drawn.view(torch.uint8).numpy().tobytes()
    try:
        file, name = tempfile.mkstemp()
        Path(name).unlink()
        os.write(file, data)
    except OSError:
        return -1
    return file


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_size_t
    libc.mmap.argtypes = (
        *(ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int),
        *(ctypes.c_int, ctypes.c_int, ctypes.c_long),
    )
    return libc
