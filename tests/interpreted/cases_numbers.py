"""What an interpreted kernel computes, number by number: rounding, conversions, products."""

import torch
from kit import BF16, FLOATS, FP16, FP32, K, launch, randn


def elementwise_arithmetic_rounds_as_torch():
    for dtype in FLOATS:
        x, y = randn(256, dtype=dtype), randn(256, dtype=dtype, seed=1)
        y[:20] = x[:20]
        wanted = {
            "add": x + y,
            "sub": x - y,
            "mul": x * y,
            "div": (x.float() / y.float()).to(dtype),
            "min": torch.minimum(x, y),
            "max": torch.maximum(x, y),
            "where": torch.where(x < y, x, y),
            "less": (x < y).to(dtype),
            "equal": (x == y).to(dtype),
            "neg": -x,
            "abs": x.abs(),
            "clamp": torch.minimum(torch.maximum(x, -y.abs()), y.abs()),
            "half constant": (x.float() * torch.tensor(0.3, dtype=dtype).float()).to(dtype),
            "fma": (x.double() * y.double() + x.double()).to(dtype),
        }
        for name, want in wanted.items():
            out = torch.empty(256, dtype=dtype)
            launch(K.binary, x, y.abs() if name == "clamp" else y, out, name, 256)
            assert torch.equal(out, want), f"{name} in {dtype}"


def maximum_and_minimum_let_nan_lose():
    x, y = randn(64), randn(64, seed=1)
    x[3] = float("nan")
    y[5] = float("nan")
    for name, pick in (("max", torch.fmax), ("min", torch.fmin)):
        out = torch.empty(64)
        launch(K.binary, x, y, out, name, 64)
        assert torch.equal(out, pick(x, y))


def conversions_round_to_nearest_even():
    values = torch.cat([randn(500) * 50, torch.tensor([1.0, 0.0, -0.0, 65520.0, 1e-8, 3e38])])
    values = torch.cat([values, randn(512 - values.numel())])
    for given in (*FLOATS, torch.float64, torch.int32, torch.int8, torch.bool):
        x = values.clamp(-100, 100).to(given) if given is torch.int8 else values.to(given)
        for wanted in FLOATS:
            out = torch.empty(512, dtype=wanted)
            launch(K.cast, x, out, 512)
            assert torch.equal(out, x.to(wanted)), f"{given} to {wanted}"


def floats_become_integers_as_on_an_h200():
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([1.7, -1.7, 3e9, -3e9, nan, inf, -inf, 300.0])
    smallest = -(2**63)
    wanted = {
        torch.int32: [1, -1, 2147483647, -2147483648, 0, 2147483647, -2147483648, 300],
        torch.int64: [1, -1, 3000000000, -3000000000, smallest, 2**63 - 1, smallest, 300],
        torch.int8: [1, -1, -1, 0, 0, -1, 0, 44],
    }
    for dtype, want in wanted.items():
        out = torch.empty(8, dtype=dtype)
        launch(K.cast, x, out, 8)
        assert out.tolist() == want, dtype


def integers_are_inverted_and_negated_in_every_width():
    signed = (torch.int8, torch.int16, torch.int32, torch.int64)
    for dtype in (*signed, torch.uint8, torch.uint16, torch.uint32, torch.uint64):
        x = torch.arange(16).to(dtype)
        inverted, negated = torch.empty_like(x), torch.empty_like(x)
        launch(K.invert_and_negate, x, inverted, negated, 16)
        numbers = torch.arange(16)
        assert torch.equal(inverted, (-1 - numbers).to(dtype)), dtype
        assert torch.equal(negated, (-numbers).to(dtype)), dtype


def truncation_is_toward_zero():
    x = randn(256)
    out = torch.empty(256, dtype=BF16)
    launch(K.truncate, x, out, 256)
    assert torch.equal(out.view(torch.int16), (x.view(torch.int32) >> 16).to(torch.int16))
    half = torch.empty(256, dtype=FP16)
    launch(K.truncate, x, half, 256)
    assert bool((half.float().abs() <= x.abs()).all())


def a_python_float_argument_computes_in_fp32():
    x, out = randn(256, dtype=BF16), torch.empty(256)
    launch(K.scale, x, out, 0.1, 256)
    assert torch.equal(out, x.float() * torch.tensor(0.1))


def bfloat16_constants_are_rounded():
    out = torch.empty(64, dtype=BF16)
    launch(K.constants, out, 64)
    assert torch.equal(out, torch.full((64,), 1.7, dtype=BF16))


def integer_valued_products_are_exact():
    for dtype in (BF16, FP16, FP32, torch.int8):
        a = (randn(32, 64) * 4).round().to(dtype)
        b = (randn(64, 16, seed=1) * 4).round().to(dtype)
        out = torch.empty(32, 16, dtype=torch.int32 if dtype is torch.int8 else FP32)
        launch(K.matmul, a, b, out, 32, 16, 64, "ieee")
        assert torch.equal(out.double(), a.double() @ b.double()), dtype


def tf32_drops_the_low_bits_of_its_operands():
    a, b, out = randn(64, 64), randn(64, 64, seed=1), torch.empty(64, 64)
    launch(K.matmul, a, b, out, 64, 64, 64, "tf32")

    def cut(x):
        return (x.view(torch.int32) & ~0x1FFF).view(FP32).double()

    assert (out.double() - cut(a) @ cut(b)).abs().max() < 1e-4
    assert (out.double() - a.double() @ b.double()).abs().max() > 1e-3


def split_precisions_are_nearly_exact():
    a, b = randn(64, 64), randn(64, 64, seed=1)
    exact = a.double() @ b.double()
    for precision, bound in {"ieee": 1e-5, "tf32x3": 2e-5, "bf16x3": 2e-3, "bf16x6": 2e-5}.items():
        out = torch.empty(64, 64)
        launch(K.matmul, a, b, out, 64, 64, 64, precision)
        assert (out.double() - exact).abs().max() < bound, precision


def a_half_accumulator_rounds_on_the_way():
    a, b = randn(64, 128, dtype=FP16), randn(128, 64, dtype=FP16, seed=1)
    out = torch.empty(64, 64, dtype=FP16)
    launch(K.matmul_half, a, b, out, 64, 64, 128)
    error = (out.double() - a.double() @ b.double()).abs().max()
    assert 4e-3 < error < 0.1


def libdevice_and_math_functions_are_there():
    x = randn(256).abs()
    wanted = {
        "tanh": x.tanh(),
        "log1p": x.log1p(),
        "erf": x.erf(),
        "rsqrt": x.rsqrt(),
        "sigmoid": x.sigmoid(),
        "exp": x.exp(),
    }
    for name, want in wanted.items():
        out = torch.empty(256)
        launch(K.elementary, x, out, name, 256)
        assert torch.allclose(out, want, rtol=1e-6), name


def random_numbers_are_uniform():
    out = torch.empty(1024)
    launch(K.random, out, 7, 1024)
    assert 0.45 < out.mean().item() < 0.55
    assert 0 <= out.min().item() <= out.max().item() < 1
