"""What is counted of interpreted kernels, whole or by a sample, and what tracing leaves behind."""

import torch
from kit import FP32, K, launch, randn

from workbench.kernels.interpret import tracing
from workbench.kernels.interpret_settings import TraceSettings
from workbench.kernels.lazy import lazy_zeros
from workbench.kernels.target import target


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
    with tracing(TraceSettings(sample=5)) as trace:
        K.tiles[(8, 8)](*args)
    sampled = trace.launches[0]
    assert (sampled.programs, sampled.sampled) == (64, 5)
    assert sampled.dot_flops == exact.dot_flops
    for name in ("a", "b", "c"):
        assert sampled.traffic[name].loaded == exact.traffic[name].loaded
        assert sampled.traffic[name].stored == exact.traffic[name].stored


def a_probe_shows_what_neighbours_share():
    a, b, c = (lazy_zeros((512, 512), FP32) for _ in range(3))
    with tracing(TraceSettings(sample=1)) as trace:
        K.tiles[(8, 8)](a, b, c, 512, 512, 512, 64, 64, 32)
    traffic = trace.launches[0].traffic
    # Columns of b change from program to program, rows of a every eighth.
    assert traffic["a"].sharing == (1, 1, 1, 1, 2, 4, 8)
    assert traffic["b"].sharing == (1, 2, 4, 8, 8, 8, 8)
    assert traffic["c"].sharing == ()


def a_budget_of_work_ends_a_sample_early():
    x = lazy_zeros((1 << 20,), FP32)
    with tracing(TraceSettings(sample=64, work=20_000)) as trace:
        K.copy[(4096,)](x, x, 1 << 20, 0, True, 256)
    assert 1 <= trace.launches[0].sampled < 10
    assert trace.launches[0].traffic["x"].loaded == 4 << 20


def full_size_tensors_cost_nothing():
    x, out = (lazy_zeros((8, 1 << 28), FP32) for _ in range(2))
    with tracing(TraceSettings(sample=4)) as trace:
        K.copy[(1 << 20,)](x, out, 1 << 28, 0, True, 256)
    assert trace.launches[0].traffic["x"].loaded == 1 << 30


def the_order_of_programs_can_be_drawn():
    winners = set()
    for seed in range(6):
        out = torch.zeros(1, dtype=torch.int32)
        with tracing(TraceSettings(shuffle=seed, count=False)):
            K.last_writer[(16,)](out)
        winners.add(out.item())
    out = torch.zeros(1, dtype=torch.int32)
    launch(K.last_writer, out, grid=(16,))
    assert out.item() == 15
    assert len(winners) > 2


def a_ghost_writes_nothing_and_is_noted():
    x, out = randn(256), torch.zeros(256)
    with tracing(TraceSettings(ghost=True)) as trace:
        K.copy[(1,)](x, out, 256, 0, True, 256)
    assert not out.any()
    assert [(t.kernel, t.sampled) for t in trace.launches] == [("copy", 0)]


def host_code_believes_in_the_target():
    with tracing(TraceSettings(stands_for=target("sm120"))):
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
