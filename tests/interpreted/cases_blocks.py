"""What an interpreted kernel does with whole blocks: folds, scans, atomics, shapes, tiles."""

import torch
import triton
from kit import BF16, FLOATS, FP32, K, launch, randn
from triton.runtime.interpreter import InterpreterBuilder
from triton.tools.tensor_descriptor import TensorDescriptor

from workbench.kernels.interpret import tracing
from workbench.kernels.interpret_settings import TraceSettings


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
    with tracing(TraceSettings(configs={"tuned": 1})) as trace:
        K.tuned[grid](x, out, 100)
    assert trace.launches[0].programs == 1


def heuristics_fill_in_their_constants():
    x, out = randn(100), torch.empty(100)
    launch(K.guessed, x, out, 100)
    assert torch.equal(out, x)


def atomics_exchange_floats_and_integers():
    for dtype in (torch.float32, torch.float64, torch.int32, torch.int64):
        x, out = torch.arange(64).to(dtype), torch.empty(64, dtype=dtype)
        launch(K.exchanged, x, out, 64)
        assert torch.equal(out, torch.arange(64).to(dtype)), dtype
        assert torch.equal(x, 2 * torch.arange(64).to(dtype)), dtype
