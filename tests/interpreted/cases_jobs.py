"""What the worker's job answers on a traced candidate."""

from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import msgspec
from kit import raised
from msgspec.structs import replace

from workbench.errors import WorkbenchError
from workbench.kernels.jobs import trace as trace_job
from workbench.kernels.records import Build
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


AHEAD = CANDIDATE.replace(
    "        double[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)",
    """
        ahead = double.warmup(x, out, x.numel(), BLOCK=1024, num_warps=8, grid=(1,))
        ahead._init_handles()
        assert ahead.n_spills == 0 and ahead.metadata.num_warps == 8
        ahead[(ahead.n_regs * ahead.metadata.shared, 1, 1)](x, out, LAUNCHED, 1024)""",
).replace("SHORT", "0")

BUILD = Build(
    kernel="double",
    arguments={"x": "*torch.float32:16", "o": "*torch.float32:16", "n": "i32:16", "BLOCK": "=1024"},
    options={"num_warps": "8"},
    registers=17,
    spills=0,
    threads=1024,
    metadata={"shared": 3, "num_warps": 8, "num_stages": 3, "num_ctas": 1, "name": "double"},
)


def _traced(source, shape, builds=()):
    with TemporaryDirectory() as folder:
        bench = SimpleNamespace(scratch=Path(folder))
        spec = TensorSpec(dtype="float32", shape=shape, strides=(1,))
        request = TraceRequest(
            source=source, target="sm100", init=(), inputs=(spec,), builds=builds
        )
        body, _ = trace_job(bench, msgspec.to_builtins(request), [])
    return msgspec.convert(body, Traced)


def a_job_traces_the_second_call_at_full_size():
    answer = _traced(CANDIDATE.replace("SHORT", "0"), (1 << 30,))
    (trace,) = answer.traces
    assert (trace.programs, trace.sampled) == (1 << 20, 8)
    assert trace.traffic["x"].loaded == 4 << 30
    assert answer.fault is None


def a_kernel_compiled_ahead_tells_what_the_compiler_said_of_it():
    (trace,) = _traced(AHEAD.replace("LAUNCHED", "x.numel()"), (1 << 16,), (BUILD,)).traces
    assert trace.programs == 17 * 3


def what_was_never_compiled_is_not_made_up():
    source = AHEAD.replace("LAUNCHED", "x.numel()")
    other = replace(BUILD, arguments={**BUILD.arguments, "BLOCK": "=512"})
    uneven = _traced(source, (1001,), (BUILD,)).fault
    faults = [uneven, _traced(source, (1 << 16,), (other,)).fault, _traced(source, (64,)).fault]
    assert {fault.kind for fault in faults} == {"cannot-judge"}
    asm = source.replace("ahead.metadata.num_warps", "ahead.metadata.target")
    assert "metadata.target" in _traced(asm, (1 << 16,), (BUILD,)).fault.what


def compiled_code_is_launched_only_on_what_it_was_compiled_for():
    fault = _traced(AHEAD.replace("LAUNCHED", "x.numel() - 1"), (1 << 16,), (BUILD,)).fault
    assert (fault.kind, fault.kernel) == ("cannot-judge", "double")
    generic = replace(BUILD, arguments={**BUILD.arguments, "n": "i32"})
    source = AHEAD.replace("LAUNCHED", "x.numel() + 7")
    assert _traced(source, (1 << 16 | 1,), (generic,)).fault is None


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
