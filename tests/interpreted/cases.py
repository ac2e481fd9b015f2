"""What interpreted kernels must do, each a function that asserts it; run by `run.py`."""

from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import msgspec
import torch
import triton
from triton.runtime.interpreter import InterpreterBuilder
from triton.tools.tensor_descriptor import TensorDescriptor

from workbench.errors import WorkbenchError
from workbench.kernels import faults
from workbench.kernels.interpret import tracing
from workbench.kernels.jobs import trace as trace_job
from workbench.kernels.lazy import lazy_zeros
from workbench.kernels.requests import TensorSpec, Traced, TraceRequest
from workbench.kernels.target import target

with tracing():  # libdevice functions are bound when a file imports them
    import kernels

K = kernels

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
FLOATS = (BF16, FP16, FP32)


def randn(*shape, dtype=FP32, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def launch(kernel, *args, grid=(1,), **named):
    with tracing() as trace:
        kernel[grid](*args, **named)
    return trace.launches[0]


def raised(kind, call):
    try:
        call()
    except kind as fault:
        return fault
    raise AssertionError(f"no {kind.__name__} was raised")


def source_line(place):
    return Path(K.__file__).read_text().splitlines()[place.line - 1]


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


def reductions_agree_with_torch():
    for dtype in FLOATS:
        x = randn(4, 64, dtype=dtype)
        wanted = {
            "max": x.max(1).values,
            "min": x.min(1).values,
            "argmax": x.argmax(1),
            "argmin": x.argmin(1),
        }
        for name, want in wanted.items():
            out = torch.empty_like(want)
            launch(K.rows, x, out, name, 4, 64)
            assert torch.equal(out, want), f"{name} of {dtype}"
        out = torch.empty(4, dtype=dtype)
        launch(K.rows, x, out, "sum", 4, 64)
        assert torch.allclose(out.float(), x.float().sum(1), rtol=5e-2, atol=5e-2), dtype


def a_bfloat16_sum_is_rounded_at_every_step():
    x = torch.full((1, 512), 2.0**-9, dtype=BF16)
    x[0, 0] = 1.0
    out = torch.empty(1, dtype=BF16)
    launch(K.rows, x, out, "sum", 1, 512)
    # A sum in float32 would be 1.998 and round to 2; the first two additions to 1 are lost.
    assert out.item() == 2.0 - 2.0**-7


def argmax_takes_the_first_of_equals():
    x, out = torch.zeros(1, 64), torch.empty(1, dtype=torch.int64)
    launch(K.rows, x, out, "argmax", 1, 64)
    assert out.item() == 0


def own_combine_functions_work_with_and_without_branches():
    for dtype in FLOATS:
        x, out = randn(64, dtype=dtype), torch.empty(1, dtype=dtype)
        launch(K.own_reduce, x, out, False, 64)
        assert torch.allclose(out.float(), x.float().sum(), atol=0.1)
        launch(K.own_reduce, x, out, True, 64)
        assert torch.equal(out[0], x.max())


def a_reduction_of_three_values_is_welfords():
    x, out = randn(256) * 3 + 5, torch.empty(2)
    launch(K.welford, x, out, 256)
    assert torch.allclose(out, torch.stack([x.mean(), x.var(unbiased=False)]))


def scans_agree_with_torch():
    for dtype in FLOATS:
        x, out = randn(8, 32, dtype=dtype), torch.empty(8, 32)
        wide = x.float()
        wanted = {
            "cumsum": wide.cumsum(1),
            "reverse": wide.flip(1).cumsum(1).flip(1),
            "cumprod": wide.cumprod(1),
            "columns": wide.cumsum(0),
            "larger": wide.cummax(1).values,
        }
        for name, want in wanted.items():
            launch(K.scans, x, out, name, 8, 32)
            assert torch.allclose(out, want, rtol=2e-2, atol=6e-2), f"{name} of {dtype}"


def atomic_additions_are_done_one_by_one():
    for dtype in (*FLOATS, torch.int32):
        x = (randn(64) * 10).to(dtype)
        out, old = torch.zeros(8, dtype=dtype), torch.empty(64, dtype=dtype)
        launch(K.atomics, x, out, old, "add", 8, 64)
        want = torch.zeros(8, dtype=dtype)
        for i in range(64):
            want[i % 8] += x[i]
        assert torch.equal(out, want), dtype
        assert torch.equal(old[8:16], x[:8]), dtype


def atomic_maximum_and_minimum_work_on_floats_and_integers():
    for dtype in (FP32, torch.int32):
        x = (randn(64) * 10).to(dtype)
        for name in ("max", "min"):
            out, old = torch.zeros(8, dtype=dtype), torch.empty(64, dtype=dtype)
            launch(K.atomics, x, out, old, name, 8, 64)
            best = getattr(torch, f"a{name}")(x.view(8, 8), 0)
            limit = {"min": 0} if name == "max" else {"max": 0}
            assert torch.equal(out, best.clamp(**limit))


def compare_and_swap_and_exchange_return_what_was_there():
    out, old = torch.tensor([5, 3], dtype=torch.int32), torch.empty(2, dtype=torch.int32)
    launch(K.swap, out, old)
    assert (out.tolist(), old.tolist()) == ([9, 7], [5, 3])


def python_logic_means_what_the_compiler_makes_of_it():
    x, out = randn(20), torch.empty(3)
    launch(K.language, x, out, 20, 32)
    assert torch.allclose(out, torch.tensor([x.sum(), 16.0, 3.0]))


def pythons_min_and_max_and_module_constants_work_on_blocks():
    x, out = randn(64), torch.empty(64)
    launch(K.clipped, x, out, 0.25, 64)
    assert torch.allclose(out, x.clamp(-0.5, 0.25) - x)


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


def shapes_are_rearranged_in_every_type():
    for dtype in (BF16, FP32, torch.int32):
        x = (randn(8, 16) * 10).to(dtype)
        pairs = x.view(8, 8, 2).flip(2).reshape(8, 16)
        wanted = {
            "trans": x.t().reshape(8, 16),
            "flip": x.flip(1),
            "sort": x.sort(1).values,
            "split": pairs,
            "gather": pairs,
        }
        for name, want in wanted.items():
            out = torch.empty_like(x)
            launch(K.rearrange, x, out, name, 8, 16)
            assert torch.equal(out, want), f"{name} of {dtype}"


def a_histogram_drops_what_is_out_of_range():
    x = torch.arange(-4, 12, dtype=torch.int32)
    out = torch.empty(8, dtype=torch.int32)
    launch(K.histogram, x, out, 16, 8)
    assert out.tolist() == [1] * 8


def random_numbers_are_uniform():
    out = torch.empty(1024)
    launch(K.random, out, 7, 1024)
    assert 0.45 < out.mean().item() < 0.55
    assert 0 <= out.min().item() <= out.max().item() < 1


def descriptors_move_edge_tiles_and_are_counted():
    for dtype in (BF16, FP32):
        x = randn(40, 48, dtype=dtype)
        made, given = torch.zeros_like(x), torch.zeros_like(x)
        launch(K.descriptor_copy, x, made, 40, 48, 16, 32, grid=(3, 2))
        source, sink = (TensorDescriptor.from_tensor(t, [16, 32]) for t in (x, given))
        trace = launch(K.host_descriptor_copy, source, sink, 16, 32, grid=(3, 2))
        assert torch.equal(made, x)
        assert torch.equal(given, x)
        assert trace.traffic["x"].loaded == x.nbytes
        assert trace.traffic["o"].stored == x.nbytes
        assert 0.2 < trace.masked_fraction < 0.4


def block_pointers_are_counted_where_triton_has_them():
    if not hasattr(InterpreterBuilder, "create_make_block_ptr"):  # gone in 3.9
        return
    x, out = randn(40, 50), torch.zeros(40, 50)
    trace = launch(K.block_pointer_copy, x, out, 40, 50, 16, 32, grid=(3, 2))
    assert torch.equal(out, x)
    assert trace.traffic["x"].loaded == x.nbytes


def a_pointer_may_be_chosen_per_lane():
    x, y, out = randn(64), randn(64, seed=1), torch.empty(64)
    launch(K.choose_pointer, x, y, out, 64)
    assert torch.equal(out, torch.where(torch.arange(64) % 2 == 0, x, y))


def an_autotuned_kernel_takes_its_first_configuration_or_the_one_asked_for():
    x, out = randn(100), torch.empty(100)
    grid = lambda meta: (triton.cdiv(100, meta["N"]),)  # noqa: E731
    assert launch(K.tuned, x, out, 100, grid=grid).programs == 2
    assert torch.equal(out, x)
    with tracing(configs={"tuned": 1}) as trace:
        K.tuned[grid](x, out, 100)
    assert trace.launches[0].programs == 1


def heuristics_fill_in_their_constants():
    x, out = randn(100), torch.empty(100)
    launch(K.guessed, x, out, 100)
    assert torch.equal(out, x)


def reading_past_the_end_is_a_fault_with_its_place():
    x, out = randn(1000), torch.empty(1000)
    call = lambda: launch(K.copy, x, out, 1000, 0, False, 256, grid=(4,))  # noqa: E731
    fault = raised(faults.AccessOutOfBounds, call)
    record = fault.record
    assert (record.argument, record.access, record.lanes) == ("x", "load", 24)
    assert (record.program, record.offset_bytes) == ((3, 0, 0), 4000)
    line = source_line(record)
    assert "tl.load(x + i + shift)" in line


def writing_into_a_neighbour_is_a_fault_although_the_address_is_mapped():
    both = torch.zeros(2, 256)
    x, out = both[0].clone(), both[1]
    raised(faults.AccessOutOfBounds, lambda: launch(K.copy, x, out, 256, 64, True, 256))
    lower = x.data_ptr() < out.data_ptr()
    distance = (out.data_ptr() - x.data_ptr()) // 4
    call = lambda: launch(K.copy, x, out, 256, distance, True, 256)  # noqa: E731
    fault = raised(faults.AccessOutOfBounds, call)
    assert fault.record.argument == "x"
    assert (fault.record.offset_bytes > 0) == lower


def inside_the_storage_but_outside_the_view_is_allowed():
    x, out = randn(1000), torch.empty(200)
    launch(K.copy, x[:200], out, 200, 0, False, 256)
    assert torch.equal(out, x[:200])


def a_strided_view_may_use_its_whole_storage():
    x, out = randn(64, 8), torch.empty(64)
    launch(K.strided, x[:, 3], out, 8, 64, 64)
    assert torch.equal(out, x[:, 3])


def reported_accesses_are_masked_and_the_rest_goes_on():
    x, out = randn(1000), torch.zeros(1000)
    with tracing(on_out_of_bounds="report") as trace:
        K.copy[(4,)](x, out, 1000, 0, False, 256)
    assert torch.equal(out, x)
    assert [(r.access, r.lanes) for r in trace.launches[0].out_of_bounds] == [("load", 24)]


def what_would_be_wrong_is_refused():
    x = randn(64)
    raised(faults.CannotJudge, lambda: launch(K.assembly, x, torch.empty(64), 64))
    eight = x.to(torch.float8_e4m3fn)
    call = lambda: launch(K.binary, eight, eight, torch.empty(64), "add", 64)  # noqa: E731
    fault = raised(faults.CannotJudge, call)
    assert "fp8" in fault.thing
    assert fault.line > 0


def a_kernel_that_raises_is_told_by_name_and_line():
    fault = raised(faults.KernelRaised, lambda: launch(K.wrong_shape, randn(64), randn(64), 64))
    assert fault.kernel == "wrong_shape"
    line = source_line(fault)
    assert "a + b" in line


def a_missing_argument_is_the_kernels_fault():
    raised(faults.KernelRaised, lambda: launch(K.copy, randn(64)))


def bytes_and_lanes_are_counted_exactly():
    x, out = randn(1000), torch.empty(1000)
    trace = launch(K.copy, x, out, 1000, 0, True, 256, grid=(4,))
    assert (trace.programs, trace.sampled) == (4, 4)
    read, written = trace.traffic["x"], trace.traffic["o"]
    assert (read.loaded, read.stored, read.footprint) == (4000, 0, 4000)
    assert (written.loaded, written.stored) == (0, 4000)
    assert (read.unique_sectors, written.stored_sectors) == (125, 125)
    assert trace.masked_fraction == 24 / 1024
    assert trace.sector_efficiency == 1.0
    assert (trace.load_steps, trace.load_places, trace.loads) == (1.0, 1, 1.0)


def strides_and_misalignment_cost_sectors():
    x, out = lazy_zeros((1 << 16,), FP32), torch.empty(1024)
    wide = launch(K.strided, x, out, 8, 1024, 1024)
    assert wide.traffic["x"].requested == 1024 * 32
    assert wide.sector_efficiency < 0.3
    shifted = launch(K.strided, x[1:], out, 1, 1024, 1024)
    # Each warp's 128 bytes straddle one sector more.
    assert shifted.traffic["x"].requested == 32 * 5 * 32


def lone_sectors_are_told_from_whole_lines():
    x, out = lazy_zeros((1 << 16,), FP32), torch.empty(1024)
    assert launch(K.strided, x, out, 8, 1024, 1024).traffic["x"].granules == 512
    assert launch(K.strided, x, out, 16, 1024, 1024).traffic["x"].granules == 1024


def flops_are_counted_by_pipe():
    a, b, out = randn(64, 64), randn(64, 64), torch.empty(64, 64)
    trace = launch(K.matmul, a, b, out, 64, 64, 64, "tf32x3")
    assert trace.dot_flops == {"float32/tf32x3": 2.0 * 64**3}
    assert trace.dot_tiles == {"float32/tf32x3": (64, 64, 64)}
    sums = launch(K.row_sum, randn(8, 512), torch.empty(8), 512, 128, grid=(8,))
    assert sums.special_ops == 8 * 512
    assert sums.vector_flops == 8 * 512
    assert (sums.reductions, sums.reduced_elements) == (1.0, 8 * 128)
    assert sums.load_steps == 4.0


def a_sample_gives_the_counts_of_the_whole():
    a, b, c = (lazy_zeros((512, 512), FP32) for _ in range(3))
    args = (a, b, c, 512, 512, 512, 64, 64, 32)
    exact = launch(K.tiles, *args, grid=(8, 8))
    with tracing(sample=5) as trace:
        K.tiles[(8, 8)](*args)
    sampled = trace.launches[0]
    assert (sampled.programs, sampled.sampled) == (64, 5)
    assert sampled.dot_flops == exact.dot_flops
    for name in ("a", "b", "c"):
        assert sampled.traffic[name].loaded == exact.traffic[name].loaded
        assert sampled.traffic[name].stored == exact.traffic[name].stored


def a_probe_shows_what_neighbours_share():
    a, b, c = (lazy_zeros((512, 512), FP32) for _ in range(3))
    with tracing(sample=1) as trace:
        K.tiles[(8, 8)](a, b, c, 512, 512, 512, 64, 64, 32)
    traffic = trace.launches[0].traffic
    # Columns of b change from program to program, rows of a every eighth.
    assert traffic["a"].sharing == (1, 1, 1, 1, 2, 4, 8)
    assert traffic["b"].sharing == (1, 2, 4, 8, 8, 8, 8)
    assert traffic["c"].sharing == ()


def a_budget_of_work_ends_a_sample_early():
    x = lazy_zeros((1 << 20,), FP32)
    with tracing(sample=64, work=20_000) as trace:
        K.copy[(4096,)](x, x, 1 << 20, 0, True, 256)
    assert 1 <= trace.launches[0].sampled < 10
    assert trace.launches[0].traffic["x"].loaded == 4 << 20


def full_size_tensors_cost_nothing():
    x, out = (lazy_zeros((8, 1 << 28), FP32) for _ in range(2))
    with tracing(sample=4) as trace:
        K.copy[(1 << 20,)](x, out, 1 << 28, 0, True, 256)
    assert trace.launches[0].traffic["x"].loaded == 1 << 30


def the_order_of_programs_can_be_drawn():
    winners = set()
    for seed in range(6):
        out = torch.zeros(1, dtype=torch.int32)
        with tracing(shuffle=seed, count=False):
            K.last_writer[(16,)](out)
        winners.add(out.item())
    out = torch.zeros(1, dtype=torch.int32)
    launch(K.last_writer, out, grid=(16,))
    assert out.item() == 15
    assert len(winners) > 2


def a_ghost_writes_nothing_and_is_noted():
    x, out = randn(256), torch.zeros(256)
    with tracing(ghost=True) as trace:
        K.copy[(1,)](x, out, 256, 0, True, 256)
    assert not out.any()
    assert [(t.kernel, t.sampled) for t in trace.launches] == [("copy", 0)]


def host_code_believes_in_the_target():
    with tracing(stands_for=target("sm120")):
        assert torch.cuda.get_device_properties(0).multi_processor_count == 170
        x = torch.arange(4.0, device="cuda")
        assert x.is_cuda
        out = torch.empty_like(x)
        K.copy[(1,)](x, out, 4, 0, True, 4)
    assert x.device.type == "cpu"
    assert torch.equal(out, x)


def triton_is_as_before_afterwards():
    from triton.runtime import interpreter

    with tracing():
        pass
    assert type(interpreter.interpreter_builder).__name__ == "InterpreterBuilder"
    assert type(interpreter.interpreter_semantic).__name__ == "TritonSemantic"
    assert interpreter.GridExecutor.__call__.__module__ == "triton.runtime.interpreter"


CANDIDATE = """
import torch
import triton
import triton.language as tl


@triton.jit
def double(x, o, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < n - SHORT) * 2, mask=i < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        sms = torch.cuda.get_device_properties(x.device).multi_processor_count
        assert sms == 148
        double[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
"""


def traced(source, shape):
    with TemporaryDirectory() as folder:
        bench = SimpleNamespace(scratch=Path(folder))
        spec = TensorSpec(dtype="float32", shape=shape, strides=(1,))
        request = TraceRequest(source=source, target="sm100", init=(), inputs=(spec,))
        body, _ = trace_job(bench, msgspec.to_builtins(request), [])
    return msgspec.convert(body, Traced)


def a_job_traces_the_second_call_at_full_size():
    answer = traced(CANDIDATE.replace("SHORT", "0"), (1 << 30,))
    (trace,) = answer.traces
    assert (trace.programs, trace.sampled) == (1 << 20, 8)
    assert trace.traffic["x"].loaded == 4 << 30
    assert answer.fault is None


def a_job_reports_a_fault_of_the_kernel_as_data():
    answer = traced(CANDIDATE.replace("SHORT", "(0 - 9)"), (1000,))
    fault = answer.fault
    assert (fault.kind, fault.kernel) == ("out-of-bounds", "double")
    assert fault.details == {"argument": "x", "access": "load", "lanes": 9, "offset_bytes": 4000}
    assert "tl.load" in CANDIDATE.splitlines()[fault.line - 1]


def launches_cannot_be_recorded_here():
    from workbench.kernels.record import recording

    def record():
        with recording(target("sm90")):
            pass

    assert "TRITON_INTERPRET" in str(raised(WorkbenchError, record))


NAMES = [
    name
    for name, value in list(globals().items())
    if callable(value)
    and getattr(value, "__module__", "") == __name__
    and name not in {"randn", "launch", "raised", "source_line", "traced"}
]
