"""What every worker that compiles would do again: imported once by the forkserver, for all.

Triton hashes its own files into each cache key (about a second); torch imports sympy with its
first meta tensor (about another).
"""

import torch.fx.experimental.symbolic_shapes  # noqa: F401  # the import is the point
from triton.runtime import cache

cache.triton_key()
