"""What the worker's job answers on a traced candidate."""

from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import msgspec
from kit import raised

from workbench.errors import WorkbenchError
from workbench.kernels.jobs import trace as trace_job
from workbench.kernels.requests import TensorSpec, Traced, TraceRequest
from workbench.kernels.target import target

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


def _traced(source, shape):
    with TemporaryDirectory() as folder:
        bench = SimpleNamespace(scratch=Path(folder))
        spec = TensorSpec(dtype="float32", shape=shape, strides=(1,))
        request = TraceRequest(source=source, target="sm100", init=(), inputs=(spec,))
        body, _ = trace_job(bench, msgspec.to_builtins(request), [])
    return msgspec.convert(body, Traced)


def a_job_traces_the_second_call_at_full_size():
    answer = _traced(CANDIDATE.replace("SHORT", "0"), (1 << 30,))
    (trace,) = answer.traces
    assert (trace.programs, trace.sampled) == (1 << 20, 8)
    assert trace.traffic["x"].loaded == 4 << 30
    assert answer.fault is None


def a_job_reports_a_fault_of_the_kernel_as_data():
    answer = _traced(CANDIDATE.replace("SHORT", "(0 - 9)"), (1000,))
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
