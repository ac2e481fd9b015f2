"""Six kernels from 5 us to 5 ms whose work can be increased slightly, for `bench noise`.

`EXTRA` adds real work of the kernel's own kind: blocks or rows that are computed twice, or steps of
the inner product beyond its end. How much time it adds is measured, not assumed.
"""

from pathlib import Path
from textwrap import dedent

from msgspec import Struct

from workbench.problems.records import Constant, Problem, Shape


class NoiseKernel(Struct, frozen=True, kw_only=True):
    """A problem and a candidate whose work can be increased."""

    name: str
    reference: str
    """Body of the problem file; its sizes are module constants."""
    small: dict[str, Constant]
    """Sizes at which the interpreter can prove the candidate right."""
    kernel: str
    forward: str
    percent: float
    """First guess of the `EXTRA` that adds one percent of time."""

    def problem(self) -> Problem:
        """The problem at its small and its full shape."""
        source = "import torch\nfrom torch import nn\n" + dedent(self.reference)
        shapes = (Shape(name="small", values=self.small), Shape(name="full"))
        return Problem(name=self.name, path=Path(f"{self.name}.py"), source=source, shapes=shapes)

    def candidate(self, extra: int, name: str) -> str:
        """Source of the candidate with `extra` work; `name` only makes the text unique."""
        head = "import torch\nimport triton\nimport triton.language as tl\nfrom torch import nn\n"
        body = "\n".join(f"        {line}" for line in dedent(self.forward).strip().splitlines())
        model = f"class ModelNew(nn.Module):\n    def forward(self, *inputs):\n{body}\n"
        return f"{head}\n# {name}\nEXTRA = {extra}\n{dedent(self.kernel)}\n\n{model}"


_ADD = NoiseKernel(
    name="add",
    reference="""
    N = 524288

    class Model(nn.Module):
        def forward(self, x, y):
            return x + y

    def get_inputs():
        return [torch.randn(N), torch.randn(N)]

    def get_init_inputs():
        return []
    """,
    small={"N": 4096},
    kernel="""
    @triton.jit
    def add(x_ptr, y_ptr, o_ptr, blocks, BLOCK: tl.constexpr):
        offs = tl.program_id(0) % blocks * BLOCK + tl.arange(0, BLOCK)
        tl.store(o_ptr + offs, tl.load(x_ptr + offs) + tl.load(y_ptr + offs))
    """,
    forward="""
    x, y = inputs
    out = torch.empty_like(x)
    blocks = x.numel() // 1024
    add[(blocks + EXTRA,)](x, y, out, blocks, BLOCK=1024, num_warps=8)
    return out
    """,
    percent=5.1,
)

_ROWS = """
    ROWS = {rows}
    COLS = {cols}

    class Model(nn.Module):
        def forward(self, x{more}):
            return {out}

    def get_inputs():
        return [torch.randn(ROWS, COLS){vector}]

    def get_init_inputs():
        return []
"""

_ROW_FORWARD = """
rows, cols = inputs[0].shape
out = torch.empty_like(inputs[0])
by_row[(rows + EXTRA,)](inputs[0], out, rows, cols, BLOCK=triton.next_power_of_2(cols), num_warps=8)
return out
"""

_SOFTMAX = NoiseKernel(
    name="softmax",
    reference=_ROWS.format(rows=4096, cols=4096, more="", out="torch.softmax(x, -1)", vector=""),
    small={"ROWS": 9, "COLS": 128},
    kernel="""
    @triton.jit
    def by_row(x_ptr, o_ptr, rows, n, BLOCK: tl.constexpr):
        row = tl.program_id(0) % rows
        cols = tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=-float("inf"))
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(o_ptr + row * n + cols, e / tl.sum(e, axis=0), mask=cols < n)
    """,
    forward=_ROW_FORWARD,
    percent=41.0,
)

_RMS = NoiseKernel(
    name="rms",
    reference=_ROWS.format(
        rows=16384,
        cols=4096,
        more="",
        out="x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5)",
        vector="",
    ),
    small={"ROWS": 9, "COLS": 128},
    kernel="""
    @triton.jit
    def by_row(x_ptr, o_ptr, rows, n, BLOCK: tl.constexpr):
        row = (tl.program_id(0) % rows).to(tl.int64)
        cols = tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=0.0)
        scale = tl.rsqrt(tl.sum(x * x, axis=0) / n + 1e-5)
        tl.store(o_ptr + row * n + cols, x * scale, mask=cols < n)
    """,
    forward=_ROW_FORWARD,
    percent=164.0,
)

_MATVEC = NoiseKernel(
    name="matvec",
    reference=_ROWS.format(
        rows=16384, cols=16384, more=", y", out="x @ y", vector=", torch.randn(COLS)"
    ),
    small={"ROWS": 9, "COLS": 2048},
    kernel="""
    @triton.jit
    def matvec(x_ptr, y_ptr, o_ptr, rows, n, BLOCK: tl.constexpr):
        row = (tl.program_id(0) % rows).to(tl.int64)
        cols = tl.arange(0, BLOCK)
        total = tl.zeros((BLOCK,), dtype=tl.float32)
        for start in range(0, n, BLOCK):
            x = tl.load(x_ptr + row * n + start + cols)
            total += x * tl.load(y_ptr + start + cols)
        tl.store(o_ptr + row, tl.sum(total, axis=0))
    """,
    forward="""
    x, y = inputs
    rows, cols = x.shape
    out = torch.empty((rows,), dtype=x.dtype, device=x.device)
    matvec[(rows + EXTRA,)](x, y, out, rows, cols, BLOCK=2048, num_warps=8)
    return out
    """,
    percent=164.0,
)

_PRODUCT = """
    M = {m}
    N = {n}
    K = {k}

    class Model(nn.Module):
        def forward(self, a, b):
            return a @ b

    def get_inputs():
        return [torch.randn(M, K{dtype}), torch.randn(K, N{dtype})]

    def get_init_inputs():
        return []
"""

_PRODUCT_KERNEL = """
    @triton.jit
    def product(a_ptr, b_ptr, o_ptr, N, K, steps, TILE: tl.constexpr, STEP: tl.constexpr):
        tiles = N // TILE
        rows = tl.program_id(0) // tiles * TILE + tl.arange(0, TILE)
        cols = tl.program_id(0) % tiles * TILE + tl.arange(0, TILE)
        total = tl.zeros((TILE, TILE), dtype=tl.float32)
        for step in range(0, steps):
            ks = step * STEP + tl.arange(0, STEP)
            a = tl.load(a_ptr + rows[:, None] * K + ks[None, :], mask=ks[None, :] < K, other=0.0)
            b = tl.load(b_ptr + ks[:, None] * N + cols[None, :], mask=ks[:, None] < K, other=0.0)
            total = tl.dot(a, b, total, input_precision="ieee")
        where = o_ptr + rows[:, None] * N + cols[None, :]
        tl.store(where, total.to(o_ptr.dtype.element_ty))
"""

_PRODUCT_FORWARD = """
a, b = inputs
(m, k), n = a.shape, b.shape[1]
out = torch.empty((m, n), dtype=a.dtype, device=a.device)
grid = ((m // {tile}) * (n // {tile}),)
steps = triton.cdiv(k, {step}) + EXTRA
product[grid](a, b, out, n, k, steps, TILE={tile}, STEP={step}, num_warps=8, num_stages=3)
return out
"""

_DOT = NoiseKernel(
    name="dot",
    reference=_PRODUCT.format(m=2048, n=2048, k=8192, dtype=", dtype=torch.float16"),
    small={"M": 128, "N": 128, "K": 64},
    kernel=_PRODUCT_KERNEL,
    forward=_PRODUCT_FORWARD.format(tile=128, step=32),
    percent=2.6,
)

_BIG = NoiseKernel(
    name="fp32_dot",
    reference=_PRODUCT.format(m=2048, n=2048, k=16384, dtype=""),
    small={"M": 64, "N": 64, "K": 32},
    kernel=_PRODUCT_KERNEL,
    forward=_PRODUCT_FORWARD.format(tile=64, step=16),
    percent=10.0,
)

NOISE_KERNELS = (_ADD, _BIG, _MATVEC, _DOT, _RMS, _SOFTMAX)
"""Those first whose decisions take the fewest pairs: what time they leave is the others'."""
