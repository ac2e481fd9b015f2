"""What an interpreted kernel may not do, and how it is told."""

import torch
from kit import K, launch, raised, randn, source_line

from workbench.kernels import faults
from workbench.kernels.interpret import tracing
from workbench.kernels.interpret_settings import TraceSettings


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
    with tracing(TraceSettings(on_out_of_bounds="report")) as trace:
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
