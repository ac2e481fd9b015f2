"""Slow start-up work of every worker that compiles, done once by the forkserver's import.

Triton hashes its own files into each cache key, which takes about a second; torch imports sympy
with its first meta tensor, which takes about another.
"""

import torch.fx.experimental.symbolic_shapes  # noqa: F401 -- the import is the point
from triton import knobs
from triton.runtime import cache

# What interprets compiles nothing.
if not knobs.runtime.interpret:
    cache.triton_key()
