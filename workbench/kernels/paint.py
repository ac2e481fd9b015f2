"""Lazy memory that holds values: the same few pages of random numbers, mapped over and over.

A kernel that is traced on zeros could skip its work where it finds zeros, and look fast.
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
"""Bytes of numbers that repeat. Ours: longer than the rows of most problems."""
_MAP_SHARED, _MAP_FIXED = 0x01, 0x10
_READ_WRITE = mmap.PROT_READ | mmap.PROT_WRITE


def paint(tensor: torch.Tensor) -> None:
    """Lay random numbers under a floating-point tensor of lazy memory; whole pages only.

    The pages are shared: memory is taken once, whatever the tensor's size, and a store goes through
    to every repetition. Other dtypes stay as they are: an integer may be an index. Where the system
    refuses, the zeros stay.
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
    """An open file of normally distributed numbers; -1 where the system makes none."""
    count = _CHUNK // dtype.itemsize
    generator = torch.Generator().manual_seed(int.from_bytes(os.urandom(7)))
    # Really drawn, although host code around us runs lazily.
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
