"""What uninitialised memory holds while a candidate runs. Runs in candidate workers only."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from workbench.gate.correctness.cases import Poison

_M_PERTURB = -6
"""mallopt(3): new blocks are filled with the complement of this byte."""
_PATTERN = 0x7F
"""Read as fp32 or bf16: 3.4e38. Read as an index: far out of bounds."""
_DIRTY_BLOCKS = tuple(1 << power for power in range(9, 26))
"""Bytes: one block for each size class of the caching allocator up to 32 MiB."""


@contextmanager
def uninitialised(poison: Poison, device: str) -> Iterator[None]:
    """Run the body with `torch.empty` returning NaN, or memory full of a large number.

    A kernel that reads what it never wrote may be right by luck under one of them, not under both.
    """
    if poison is Poison.NAN:
        with _filled():
            yield
    elif device == "cpu":
        with _perturbed():
            yield
    else:
        _leave_dirty_blocks(device)
        yield


@contextmanager
def _filled() -> Iterator[None]:
    """Have torch fill what it allocates: `torch.utils.deterministic.fill_uninitialized_memory`."""
    # The public setter imports torch._inductor, which takes two seconds and is not needed here.
    switch = torch._C._set_deterministic_algorithms  # noqa: SLF001 -- torch has no public name for it
    before = torch.are_deterministic_algorithms_enabled()
    warned = torch.is_deterministic_algorithms_warn_only_enabled()
    switch(True, warn_only=True)
    try:
        yield
    finally:
        switch(before, warn_only=warned)


@contextmanager
def _perturbed() -> Iterator[None]:
    """Have glibc fill every block it hands out; torch's CPU allocator uses it."""
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt"):  # another libc: such calls run on whatever memory holds
        yield
        return
    libc.mallopt(_M_PERTURB, _PATTERN ^ 0xFF)
    try:
        yield
    finally:
        libc.mallopt(_M_PERTURB, 0)


def _leave_dirty_blocks(device: str) -> None:
    """Give the caching allocator blocks of every size to hand out, full of the pattern."""
    blocks = [
        torch.full((size,), _PATTERN, dtype=torch.uint8, device=device)
        for size in _DIRTY_BLOCKS
        for _ in range(2)
    ]
    del blocks
