# ruff: noqa: ARG001, C901, N803, N806, PLR0912, PLR0917, SIM108 - Triton's own conventions in kernels
"""Kernels that the interpreter's tests launch; a file of its own, as a candidate is."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def binary(x, y, o, OP: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    b = tl.load(y + i)
    if OP == "add":
        r = a + b
    elif OP == "sub":
        r = a - b
    elif OP == "mul":
        r = a * b
    elif OP == "div":
        r = a / b
    elif OP == "min":
        r = tl.minimum(a, b)
    elif OP == "max":
        r = tl.maximum(a, b)
    elif OP == "where":
        r = tl.where(a < b, a, b)
    elif OP == "less":
        r = a < b
    elif OP == "equal":
        r = a == b
    elif OP == "neg":
        r = -a
    elif OP == "abs":
        r = tl.abs(a)
    elif OP == "clamp":
        r = tl.clamp(a, -b, b)
    elif OP == "half constant":
        r = a * 0.3
    else:
        r = tl.fma(a, b, a)
    tl.store(o + i, r)


@triton.jit
def cast(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.load(x + i).to(o.dtype.element_ty))


@triton.jit
def invert_and_negate(x, inverted, negated, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    tl.store(inverted + i, ~a)
    tl.store(negated + i, 0 - a)


@triton.jit
def truncate(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.load(x + i).to(o.dtype.element_ty, fp_downcast_rounding="rtz"))


@triton.jit
def scale(x, o, factor, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.load(x + i) * factor)


@triton.jit
def constants(o, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.full((N,), 1.7, o.dtype.element_ty)
    tl.store(o + i, v + tl.zeros((N,), o.dtype.element_ty))


@triton.jit
def matmul(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr):
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    k = tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * N + n[None, :])
    tl.store(c + m[:, None] * N + n[None, :], tl.dot(x, y, input_precision=PRECISION))


@triton.jit
def matmul_half(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m = tl.arange(0, M)
    n = tl.arange(0, N)
    k = tl.arange(0, K)
    x = tl.load(a + m[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * N + n[None, :])
    tl.store(c + m[:, None] * N + n[None, :], tl.dot(x, y, out_dtype=tl.float16))


@triton.jit
def rows(x, o, OP: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    m = tl.arange(0, M)
    v = tl.load(x + m[:, None] * N + tl.arange(0, N)[None, :])
    if OP == "sum":
        r = tl.sum(v, axis=1)
    elif OP == "max":
        r = tl.max(v, axis=1)
    elif OP == "min":
        r = tl.min(v, axis=1)
    elif OP == "argmax":
        r = tl.argmax(v, axis=1)
    else:
        r = tl.argmin(v, axis=1)
    tl.store(o + m, r)


@triton.jit
def _plus(a, b):
    return a + b


@triton.jit
def _larger(a, b):
    if a > b:
        r = a
    else:
        r = b
    return r


@triton.jit
def _welford(m1, s1, n1, m2, s2, n2):
    n = n1 + n2
    d = m2 - m1
    return m1 + d * n2 / n, s1 + s2 + d * d * n1 * n2 / n, n


@triton.jit
def own_reduce(x, o, BRANCHES: tl.constexpr, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    if BRANCHES:
        r = tl.reduce(v, 0, _larger)
    else:
        r = tl.reduce(v, 0, _plus)
    tl.store(o, r)


@triton.jit
def welford(x, o, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    one = tl.full((N,), 1.0, tl.float32)
    mean, sq, n = tl.reduce((v, tl.zeros((N,), tl.float32), one), 0, _welford)
    tl.store(o, mean)
    tl.store(o + 1, sq / n)


@triton.jit
def scans(x, o, OP: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    v = tl.load(x + at)
    if OP == "cumsum":
        r = tl.cumsum(v, axis=1)
    elif OP == "reverse":
        r = tl.cumsum(v, axis=1, reverse=True)
    elif OP == "cumprod":
        r = tl.cumprod(v, axis=1)
    elif OP == "columns":
        r = tl.associative_scan(v, 0, _plus)
    else:
        r = tl.associative_scan(v, 1, _larger)
    tl.store(o + at, r)


@triton.jit
def atomics(x, o, old, OP: tl.constexpr, BINS: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    if OP == "add":
        r = tl.atomic_add(o + i % BINS, v)
    elif OP == "max":
        r = tl.atomic_max(o + i % BINS, v)
    else:
        r = tl.atomic_min(o + i % BINS, v)
    tl.store(old + i, r)


@triton.jit
def swap(o, old):
    tl.store(old, tl.atomic_cas(o, 5, 9))
    tl.store(old + 1, tl.atomic_xchg(o + 1, 7))


@triton.jit
def language(x, o, n, N: tl.constexpr):
    HALF: tl.constexpr = N // 2
    i = tl.arange(0, HALF)
    total = 0.0
    trips = 0
    for k in range(2):
        inside = (i + k * HALF >= 0) and (i + k * HALF < n)
        v = tl.load(x + i + k.to(tl.int64) * HALF, mask=inside and not (i > n), other=0.0)
        total += tl.sum(v)
        trips += 1
    while trips < 10:
        trips = trips * 2
    for s in tl.static_range(2):
        total += s * tl.sum(tl.zeros((1 << s,), tl.float32))
    tl.store(o, total)
    tl.store(o + 1, trips.to(tl.float32))
    tl.store(o + 2, tl.sum(tl.where(0 <= i < 3, 1.0, 0.0)))


LOWEST = tl.constexpr(-0.5)


@triton.jit
def clipped(x, o, top, N: tl.constexpr):
    v = tl.load(x + tl.arange(0, N))
    low = max(LOWEST * 1.0, v)
    scaled = LOWEST * v + v * LOWEST
    tl.store(o + tl.arange(0, N), min(low, top) + scaled)


@triton.jit
def elementary(x, o, OP: tl.constexpr, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    if OP == "tanh":
        r = libdevice.tanh(v)
    elif OP == "log1p":
        r = libdevice.log1p(v)
    elif OP == "erf":
        r = tl.erf(v)
    elif OP == "rsqrt":
        r = tl.rsqrt(v)
    elif OP == "sigmoid":
        r = tl.sigmoid(v)
    else:
        r = tl.exp(v)
    tl.store(o + i, r)


@triton.jit
def rearrange(x, o, OP: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    v = tl.load(x + at)
    if OP == "trans":
        r = tl.reshape(tl.trans(v), (M, N))
    elif OP == "flip":
        r = tl.flip(v, 1)
    elif OP == "sort":
        r = tl.sort(v)
    elif OP == "split":
        a, b = tl.split(tl.reshape(v, (M, N // 2, 2)))
        r = tl.reshape(tl.join(b, a), (M, N))
    else:
        r = tl.gather(v, (tl.arange(0, N)[None, :] + tl.zeros((M, 1), tl.int32)) ^ 1, 1)
    tl.store(o + at, r)


@triton.jit
def histogram(x, o, N: tl.constexpr, BINS: tl.constexpr):
    tl.store(o + tl.arange(0, BINS), tl.histogram(tl.load(x + tl.arange(0, N)), BINS))


@triton.jit
def random(o, seed, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.rand(seed, i))


@triton.jit
def descriptor_copy(x, o, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [BM, BN])
    sink = tl.make_tensor_descriptor(o, [M, N], [N, 1], [BM, BN])
    at = [tl.program_id(0) * BM, tl.program_id(1) * BN]
    sink.store(at, source.load(at))


@triton.jit
def host_descriptor_copy(x, o, BM: tl.constexpr, BN: tl.constexpr):
    at = [tl.program_id(0) * BM, tl.program_id(1) * BN]
    o.store(at, x.load(at))


@triton.jit
def block_pointer_copy(x, o, M, N, BM: tl.constexpr, BN: tl.constexpr):
    at = (tl.program_id(0) * BM, tl.program_id(1) * BN)
    source = tl.make_block_ptr(x, (M, N), (N, 1), at, (BM, BN), (1, 0))
    sink = tl.make_block_ptr(o, (M, N), (N, 1), at, (BM, BN), (1, 0))
    tl.store(sink, tl.load(source, boundary_check=(0, 1)), boundary_check=(0, 1))


@triton.jit
def copy(x, o, n, shift, MASKED: tl.constexpr, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    if MASKED:
        tl.store(o + i, tl.load(x + i + shift, mask=i < n), mask=i < n)
    else:
        v = tl.load(x + i + shift)
        tl.store(o + i, v, mask=i < n)


@triton.jit
def choose_pointer(x, y, o, N: tl.constexpr):
    i = tl.arange(0, N)
    p = tl.where(i % 2 == 0, x + i, y + i)
    tl.store(o + i, tl.load(p))


@triton.jit
def last_writer(o):
    tl.store(o, tl.program_id(0))


@triton.jit
def assembly(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    v = tl.load(x + i)
    r = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [v], tl.float32, True, 1)
    tl.store(o + i, r)


@triton.jit
def wrong_shape(x, o, N: tl.constexpr):
    a = tl.load(x + tl.arange(0, N))
    b = tl.load(x + tl.arange(0, N // 4))
    tl.store(o + tl.arange(0, N), a + b)


@triton.jit
def tiles(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        kk = k + tl.arange(0, BK)
        acc = tl.dot(tl.load(a + m[:, None] * K + kk), tl.load(b + kk[:, None] * N + n), acc)
    tl.store(c + m[:, None] * N + n, acc)


@triton.jit
def strided(x, o, stride, n, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(o + i, tl.load(x + i * stride, mask=i < n), mask=i < n)


@triton.jit
def row_sum(x, o, n, N: tl.constexpr):
    r = tl.program_id(0)
    total = tl.zeros((N,), tl.float32)
    for k in range(0, n, N):
        total += tl.exp(tl.load(x + r * n + k + tl.arange(0, N)))
    tl.store(o + r, tl.sum(total))


@triton.autotune([triton.Config({"N": 64}), triton.Config({"N": 256})], key=["n"])
@triton.jit
def tuned(x, o, n, N: tl.constexpr):
    i = tl.program_id(0) * N + tl.arange(0, N)
    tl.store(o + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.heuristics({"N": lambda a: triton.next_power_of_2(a["n"])})
@triton.jit
def guessed(x, o, n, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def exchanged(x, o, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.atomic_xchg(x + i, tl.load(x + i) * 2))
