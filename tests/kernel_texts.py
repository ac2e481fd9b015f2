"""Candidates written in many hands: what edits and facts must cope with."""

from pathlib import Path

from kernel_pairs import PAIRS

SUITE = Path(__file__).parent.parent / "workbench" / "problems" / "suite"
SEEDS = {
    folder.name: (folder / "seed.py").read_text()
    for folder in sorted(SUITE.iterdir())
    if (folder / "seed.py").is_file()
}

ALIASED = '''\
# a comment before everything
import torch
import triton as T
from triton import language as L

ROWS_BLOCK = 512  # fed by name


@T.jit
def scale(src, dst, n, factor, B: L.constexpr):
    """Multiply by a factor."""
    at = L.program_id(axis=0) * B + L.arange(0, B)  # offsets
    keep = at < n
    value = L.load(src + at, keep, other=0.)
    L.store(dst + at, value * factor, keep)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        n = x.numel()
        scale[(T.cdiv(n, ROWS_BLOCK),)](x, y, n, 2.0, ROWS_BLOCK)
        return y
'''

CONFIGS = """\
import torch
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK": 256}, num_warps=4, num_stages=2),
    triton.Config(dict(BLOCK=1024), num_warps=8, num_stages=2),
]


@triton.autotune(configs=CONFIGS, key=["n"])
@triton.jit
def add(a, b, c, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(c + i, tl.load(a + i, mask=m) + tl.load(b + i, mask=m), mask=m)


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        c = torch.empty_like(a)
        add[lambda META: (triton.cdiv(a.numel(), META["BLOCK"]),)](a, b, c, a.numel())
        return c
"""

TUTORIAL_MATMUL = """\
import torch
import triton
import triton.language as tl


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, sam, sak, sbk, sbn, scm, scn,
           BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    pid_m = tl.program_id(axis=0)
    pid_n = tl.program_id(axis=1)
    offs_m = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    offs_n = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + (offs_m[:, None] * sam + offs_k[None, :] * sak)
    b_ptrs = b_ptr + (offs_k[:, None] * sbk + offs_n[None, :] * sbn)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_K, other=0.0)
        acc += tl.dot(a, b, allow_tf32=False)
        a_ptrs += BLOCK_K * sak
        b_ptrs += BLOCK_K * sbk
    rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_ptrs = c_ptr + scm * rm[:, None] + scn * rn[None, :]
    tl.store(c_ptrs, acc, mask=(rm[:, None] < M) & (rn[None, :] < N))


class ModelNew(torch.nn.Module):
    BLOCK_K = 32

    def __init__(self):
        super().__init__()
        self.block_m = 64
        self.block_n: int = 32

    def forward(self, a, b):
        M, K = a.shape
        N = b.shape[1]
        c = torch.empty((M, N), device=a.device, dtype=a.dtype)
        grid = (triton.cdiv(M, self.block_m), triton.cdiv(N, self.block_n))
        matmul[grid](
            a, b, c, M, N, K,
            a.stride(0), a.stride(1), b.stride(0), b.stride(1), c.stride(0), c.stride(1),
            BLOCK_M=self.block_m, BLOCK_N=self.block_n, BLOCK_K=self.BLOCK_K,
        )
        return c
"""

ROW_NORM = """\
import torch, triton
import triton.language as tl
from torch import nn


@triton.jit
def row_norm(x_ptr, w_ptr, y_ptr, stride, n_cols, eps,
             BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row * stride
    # sum of squares
    acc = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for i in tl.range(0, tl.cdiv(n_cols, BLOCK_SIZE)):
        # the columns of this block
        offs = i * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        mask = offs < n_cols
        x = tl.load(x_ptr + offs, mask=mask, other=0.0)
        acc += x * x
    rstd = tl.rsqrt(tl.sum(acc) / n_cols + eps)
    for i in tl.range(0, tl.cdiv(n_cols, BLOCK_SIZE)):
        offs = i * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
        mask = offs < n_cols
        w = tl.load(w_ptr + offs, mask=mask)
        x = tl.load(x_ptr + offs, mask=mask)
        tl.store(y_ptr + row * stride + offs, x * rstd * w, mask=mask)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(300))

    def forward(self, x):
        y = torch.empty_like(x)
        block = 128
        row_norm[(x.shape[0],)](
            x, self.weight, y, x.stride(0), x.shape[1], 1e-6,
            BLOCK_SIZE=block,  # elements
        )
        return y
"""

SHARED_CONSTANT = """\
import torch
import triton
import triton.language as tl

BLOCK = 256


@triton.jit
def double(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def helper(v):
    return v + 1


@triton.jit
def bump(x, y, n, BLOCK: tl.constexpr = 64):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, helper(tl.load(x + i, mask=i < n)), mask=i < n)


def run(kernel_input, block=128):
    n = kernel_input.numel()
    y = torch.empty_like(kernel_input)
    z = torch.empty_like(kernel_input)
    w = torch.empty_like(kernel_input)
    double[(triton.cdiv(n, BLOCK),)](kernel_input, y, n, BLOCK=BLOCK, num_warps=2)
    double[(triton.cdiv(n, block),)](y, z, n, block, num_warps=4)
    bump[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](z, w, n)
    return w


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return run(x)
"""

TABBED = "".join(
    line.replace("    ", "\t") + "\r\n" for line in SEEDS["softmax"].splitlines()
).replace("highest", "größtes")

LITERALS = """\
import torch
import triton
import triton.language as tl


@triton.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        copy[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
        return y
"""

OWN = {
    "aliased": ALIASED,
    "configs": CONFIGS,
    "tutorial_matmul": TUTORIAL_MATMUL,
    "row_norm": ROW_NORM,
    "shared_constant": SHARED_CONSTANT,
    "tabbed": TABBED,
    "literals": LITERALS,
    **PAIRS,
}
EVERY = {**SEEDS, **OWN}
STRANGE = {
    "empty": "",
    "not python": "def (:",
    "null byte": "x = 1\0",
    "byte order mark": "\ufeffx = 1",
    "deep": "x = " + "(" * 90 + "1" + ")" * 90,
    "long sum": "x = " + " + ".join(["1"] * 400),
    "surrogate": "x = '\ud800'",
    "only jit": "import triton\n@triton.jit\ndef k(): pass\n",
    "jit of a lambda": "import triton\nk = triton.jit(lambda x: x)\nk[(1,)](3)\n",
    "starred launch": SEEDS["gelu"].replace("(x, out, n, BLOCK=256, num_warps=4)", "(*a, **b)"),
    "star parameters": "import triton\n@triton.jit\ndef k(*a, **b):\n    for i in a: pass\n",
    "recursive": "import triton, triton.language as tl\n@triton.jit\ndef k(p):\n"
    "    a = b\n    b = a\n    tl.store(a + b, k(p))\nk[(1,)](2)\n",
    "async": "class ModelNew:\n    async def forward(self):\n        await x\n        k[g](1)\n",
    "one line loops": "import triton, triton.language as tl\n@triton.jit\n"
    "def k(p, N, B: tl.constexpr):\n    for i in range(0, N, B): tl.store(p + i, tl.load(p + i))\n"
    "    for i in range(0, N, B): tl.store(p + i, tl.load(p + i)); x = 1\nk[(1,)](2, 3, B=4)\n",
    "while": "import triton, triton.language as tl\n@triton.jit\ndef k(p, N):\n"
    "    i = 0\n    while i < N:\n        x = tl.load(p + i)\n        tl.store(p + i, x)\n"
    "        i += 1\nk[(1,)](2, 3)\n",
}
