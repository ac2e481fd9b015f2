# ruff: noqa: B007, N803, PLR0917 - Triton's own conventions in kernels
"""Kernels whose time was measured on an H200 and is modeled: name -> (input shapes, launch)."""

import torch
import triton
import triton.language as tl


@triton.jit
def copy(x, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def add(x, y, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.jit
def exps(x, o, n, R: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    for _ in tl.static_range(R):
        v = tl.exp(v - 1.0)
    tl.store(o + i, v, mask=i < n)


@triton.jit
def fmas(x, o, n, R: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n)
    w = v + 1.0
    for _ in tl.static_range(R):
        v = v * w + 0.5
    tl.store(o + i, v, mask=i < n)


@triton.jit
def strided(x, o, n, S, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i * S, mask=i < n), mask=i < n)


@triton.jit
def softmax3(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_row = x_ptr + row * N
    out_row = out_ptr + row * N
    highest = -float("inf")
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < N, other=-float("inf"))
        highest = tl.maximum(highest, tl.max(x, axis=0))
    total = 0.0
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < N, other=-float("inf"))
        total += tl.sum(tl.exp(x - highest), axis=0)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < N, other=-float("inf"))
        tl.store(out_row + cols, tl.exp(x - highest) / total, mask=cols < N)


@triton.jit
def softmax2(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_row = x_ptr + row * N
    out_row = out_ptr + row * N
    m = tl.full((BLOCK,), -float("inf"), tl.float32)
    s = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < N, other=-float("inf"))
        mn = tl.maximum(m, x)
        s = s * tl.exp(m - mn) + tl.exp(x - mn)
        m = mn
    highest = tl.max(m, 0)
    total = tl.sum(s * tl.exp(m - highest), 0)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < N, other=-float("inf"))
        tl.store(out_row + cols, tl.exp(x - highest) / total, mask=cols < N)


@triton.jit
def softmax1(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=-float("inf"))
    x = tl.exp(x - tl.max(x, 0))
    tl.store(out_ptr + row * N + cols, x / tl.sum(x, 0), mask=cols < N)


@triton.jit
def matvec(a, x, o, K, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    acc = tl.zeros((BLOCK,), tl.float32)
    for k in range(0, K, BLOCK):
        c = k + tl.arange(0, BLOCK)
        acc += tl.load(a + r * K + c, mask=c < K, other=0.0) * tl.load(x + c, mask=c < K, other=0.0)
    tl.store(o + r, tl.sum(acc))


@triton.jit
def matvec_split(a, x, o, K, PART, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    lo = tl.program_id(1) * PART
    acc = tl.zeros((BLOCK,), tl.float32)
    for k in range(lo, lo + PART, BLOCK):
        c = k + tl.arange(0, BLOCK)
        acc += tl.load(a + r * K + c, mask=c < K, other=0.0) * tl.load(x + c, mask=c < K, other=0.0)
    tl.atomic_add(o + r, tl.sum(acc))


@triton.jit
def gemm(
    a,
    b,
    c,
    M,
    N,
    K,
    PREC: tl.constexpr,
    BT: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
):
    pid = tl.program_id(0)
    nm = tl.cdiv(M, BM)
    nn = tl.cdiv(N, BN)
    if GROUP == 1:
        pm = pid // nn
        pn = pid % nn
    else:
        width = GROUP * nn
        g = pid // width
        size = min(nm - g * GROUP, GROUP)
        pm = g * GROUP + (pid % width) % size
        pn = (pid % width) // size
    rm = pm * BM + tl.arange(0, BM)
    rn = pn * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    pa = a + rm[:, None] * K + rk[None, :]
    pb = (b + rn[None, :] * K + rk[:, None]) if BT else (b + rk[:, None] * N + rn[None, :])
    for k in range(0, K, BK):
        x = tl.load(pa)
        y = tl.load(pb)
        acc = tl.dot(x, y, acc, input_precision=PREC)
        pa += BK
        pb += BK if BT else BK * N
    tl.store(c + rm[:, None] * N + rn[None, :], acc.to(c.dtype.element_ty))


@triton.jit
def atomics(x, o, n, BINS, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.atomic_add(o + i % BINS, v, mask=i < n)


@triton.jit
def persistent_copy(x, o, n, BLOCK: tl.constexpr):
    step = tl.num_programs(0) * BLOCK
    for s in range(tl.program_id(0) * BLOCK, n, step):
        i = s + tl.arange(0, BLOCK)
        tl.store(o + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def rms_columns(x, o, C, S, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    base = tl.program_id(1).to(tl.int64) * C * S
    acc = tl.zeros((BLOCK,), tl.float32)
    for c in range(C):
        v = tl.load(x + base + c * S + i)
        acc += v * v
    r = tl.rsqrt(acc / C + 1e-5)
    for c in range(C):
        tl.store(o + base + c * S + i, tl.load(x + base + c * S + i) * r)


F32, BF16 = torch.float32, torch.bfloat16
N = 1 << 26
ROWS, COLS = 4096, 98304

CASES = {}
"""What `measure.py` times and `collect.py` records and traces."""


def case(name, *inputs):
    """Register a launch on tensors of these (shape, dtype)."""

    def register(run):
        CASES[name] = (inputs, run)

    return register


def like(x):
    return torch.empty_like(x)


def copies(block, warps):
    @case(f"copy64M_B{block}_w{warps}", ((N,), F32))
    def run(x):
        copy[(triton.cdiv(N, block),)](x, like(x), N, BLOCK=block, num_warps=warps)


def small_copies(n):
    @case(f"copy_n{n}_B1024", ((n,), F32))
    def run(x):
        copy[(n // 1024,)](x, like(x), n, BLOCK=1024, num_warps=4)


def repeated(kernel, name, count):
    @case(f"{name}16M_R{count}", ((1 << 24,), F32))
    def run(x):
        kernel[(1 << 14,)](x, like(x), 1 << 24, R=count, BLOCK=1024, num_warps=4)


def strides(step):
    @case(f"stride{step}", ((1 << 27,), F32), ((1 << 22,), F32))
    def run(x, out):
        strided[(4096,)](x, out, 1 << 22, step, BLOCK=1024, num_warps=4)


def softmaxes(kernel, name, cols, block, warps):
    @case(name, ((ROWS, cols), F32))
    def run(x):
        kernel[(ROWS,)](x, like(x), cols, BLOCK=block, num_warps=warps)


def matvecs(rows, cols, block, warps):
    @case(f"matvec_{rows}_B{block}_w{warps}", ((rows, cols), F32), ((cols,), F32))
    def run(a, x):
        matvec[(rows,)](a, x, a.new_empty(rows), cols, BLOCK=block, num_warps=warps)


def split_matvecs(rows, cols):
    @case(f"matvec_{rows}_split16", ((rows, cols), F32), ((cols,), F32), ((rows,), F32))
    def run(a, x, out):
        matvec_split[(rows, 16)](a, x, out, cols, cols // 16, BLOCK=4096, num_warps=8)


def gemms(bm, bn, bk, warps, stages, group):
    name = f"gemm_bf16_{bm}x{bn}x{bk}_w{warps}s{stages}g{group}"
    n = 4096

    @case(name, ((n, n), BF16), ((n, n), BF16))
    def run(a, b):
        tile = ("ieee", False, bm, bn, bk, group)
        grid = (n // bm * (n // bn),)
        gemm[grid](a, b, like(a), n, n, n, *tile, num_warps=warps, num_stages=stages)


def linears(precision, bm, bn, bk, warps, stages):
    name = f"linear_{precision}_{bm}x{bn}x{bk}_w{warps}s{stages}"
    m, n, k = 1024, 8192, 8192

    @case(name, ((m, k), F32), ((n, k), F32))
    def run(a, b):
        tile = (precision, True, bm, bn, bk, 8)
        grid = (m // bm * (n // bn),)
        gemm[grid](a, b, a.new_empty(m, n), m, n, k, *tile, num_warps=warps, num_stages=stages)


def scattered(bins):
    @case(f"atomic_{bins}", ((1 << 22,), F32), ((1 << 20,), F32))
    def run(x, out):
        atomics[(4096,)](x, out, 1 << 22, bins, BLOCK=1024, num_warps=4)


def persistent(programs):
    @case(f"persist_copy_p{programs}_B4096", ((N,), F32))
    def run(x):
        persistent_copy[(programs,)](x, like(x), N, BLOCK=4096, num_warps=8)


def columns(block):
    @case(f"rmscol_B{block}", ((28, 64, 512, 512), F32))
    def run(x):
        grid = (512 * 512 // block, 28)
        rms_columns[grid](x, like(x), 64, 512 * 512, BLOCK=block, num_warps=4)


@case("copy64M_B1024_misaligned", ((N + 1,), F32))
def misaligned(x):
    copy[(triton.cdiv(N, 1024),)](x[1:], like(x)[1:], N, BLOCK=1024, num_warps=4)


@case("add64M_B1024", ((N,), F32), ((N,), F32))
def add_floats(x, y):
    add[(N // 1024,)](x, y, like(x), N, BLOCK=1024, num_warps=4)


@case("add64M_bf16_B1024", ((N,), BF16), ((N,), BF16))
def add_halves(x, y):
    add[(N // 1024,)](x, y, like(x), N, BLOCK=1024, num_warps=4)


@case("launch5", ((1024,), F32))
def five_launches(x):
    for _ in range(5):
        copy[(1,)](x, like(x), 1024, BLOCK=1024, num_warps=4)


for block, warps in ((128, 4), (128, 1), (256, 4), (512, 4), (1024, 4), (1024, 8)):
    copies(block, warps)
for block, warps in ((4096, 4), (4096, 8), (8192, 8), (16384, 8)):
    copies(block, warps)
for n in (1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24):
    small_copies(n)
for count in (4, 16, 64):
    repeated(exps, "exp", count)
for count in (64, 256):
    repeated(fmas, "fma", count)
for step in (2, 8, 32):
    strides(step)
for block, warps in ((1024, 4), (4096, 8), (8192, 8), (16384, 16)):
    softmaxes(softmax3, f"softmax3_98304_B{block}_w{warps}", COLS, block, warps)
for block, warps in ((1024, 4), (4096, 8), (8192, 16)):
    softmaxes(softmax2, f"softmax2_98304_B{block}_w{warps}", COLS, block, warps)
for warps in (8, 16, 32):
    softmaxes(softmax1, f"softmax1_98304_w{warps}", COLS, 131072, warps)
softmaxes(softmax3, "softmax3_4096_B1024", 4096, 1024, 4)
for warps in (4, 8, 16):
    softmaxes(softmax1, f"softmax1_4096_w{warps}", 4096, 4096, warps)
for rows, cols in ((2048, 1 << 18), (64, 1 << 20)):
    for block, warps in ((1024, 4), (4096, 8), (8192, 8)):
        matvecs(rows, cols, block, warps)
    split_matvecs(rows, cols)
for tile in ((32, 32, 32, 4, 2, 1), (64, 64, 32, 4, 3, 1), (64, 64, 64, 4, 4, 8)):
    gemms(*tile)
for tile in ((128, 128, 32, 4, 3, 1), (128, 128, 64, 8, 3, 1), (128, 128, 64, 8, 3, 8)):
    gemms(*tile)
for tile in ((128, 256, 64, 8, 3, 8), (128, 128, 64, 4, 3, 8), (128, 64, 64, 4, 4, 8)):
    gemms(*tile)
for precision in ("ieee", "tf32", "tf32x3"):
    for tile in ((32, 32, 32, 4, 2), (64, 64, 32, 4, 3), (128, 64, 32, 4, 4)):
        linears(precision, *tile)
    linears(precision, 128, 128, 16 if precision == "ieee" else 32, 8, 3)
for bins in (1, 256, 1 << 20):
    scattered(bins)
for programs in (132, 264, 528, 1056):
    persistent(programs)
for block in (1024, 256):
    columns(block)
