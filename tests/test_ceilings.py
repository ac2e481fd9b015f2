"""What a GPU reaches: measured in a worker, kept, and what times are told against."""

import time

import pytest
from msgspec import structs

from workbench.gate.correctness.protocol import TensorEntry
from workbench.gate.problem.records import ProblemReport, ShapeReport
from workbench.gate.timing.roof import Roof
from workbench.isolation.workshop import Workshop
from workbench.kernels.target import target
from workbench.measure import ceilings, gpuwatch
from workbench.measure.cache import read_cached, write_cached
from workbench.measure.ceilings import Ceilings, Wanted, known_ceilings, measure_rates
from workbench.measure.floor import Demand, limit
from workbench.measure.gpus import Gpu
from workbench.measure.gpuwatch import held_by, hot
from workbench.measure.raising import Shown, raised
from workbench.measure.records import Kind, Time
from workbench.problems.records import Precision, Problem, Shape, WorkFloor

SM90 = target("sm90")
GPU = Gpu(
    index=0,
    uuid="GPU-1",
    name="NVIDIA H200",
    cc=90,
    memory_bytes=1 << 37,
    driver="580",
    utilization=0,
    processes=0,
)
REACHED = Ceilings(
    uuid="GPU-1",
    gpu="NVIDIA H200",
    driver="580",
    torch="2.11",
    measured="2026-11-29T10:00:00+00:00",
    copy_gbps=4000.0,
    read_gbps=4400.0,
    matrix_tflops={"bfloat16": 780.0, "float16": 750.0, "tf32": 420.0, "float32": 50.0},
)


def of(*, size, flops=0.0, written=None, ceilings=REACHED, dtypes=("float32",)):
    demand = Demand(
        work=WorkFloor(flops=flops, bytes=size),
        dtypes=set(dtypes),
        precision=Precision.IEEE,
        written=size / 2 if written is None else written,
    )
    return limit(demand, SM90, ceilings)


def test_a_copy_is_told_against_copying_and_a_sum_against_reading():
    assert of(size=4e9).us == pytest.approx(1000.0)
    assert of(size=4.4e9, written=8192).us == pytest.approx(1000.0)


def test_without_a_measurement_the_limit_is_the_datasheets_and_says_so():
    sheet = of(size=4.8e9, ceilings=None)
    assert (sheet.us, sheet.source) == (pytest.approx(1000.0), "datasheet")
    assert of(size=4e9).source == "measured ceiling, 2026-11-29"


def test_products_are_told_against_the_rate_of_their_dtype():
    half = of(size=1e6, flops=780e6, dtypes=("bfloat16",))
    assert (half.bound, half.us) == ("arithmetic", pytest.approx(1.0))
    # Three bf16 products may stand for one that is promised in IEEE fp32.
    assert of(size=1e6, flops=260e6).us == pytest.approx(1.0)


def test_a_share_is_said_with_what_it_is_a_share_of():
    took = Time(kind=Kind.MEASURED, microseconds=2000.0, device="NVIDIA H200")
    assert of(size=4e9).words(took) == "50 % of limit (memory, measured ceiling, 2026-11-29)"


def shown(us, *, work, dtypes=("bfloat16",), written=0.0, counted=False):
    """What a timing makes of `REACHED`, and the limit before."""
    demand = Demand(
        work=work,
        dtypes=dtypes,
        precision=Precision.IEEE,
        written=written,
        counted=counted,
    )
    before = limit(demand, SM90, REACHED)
    said = Shown(
        us=us,
        who="gemm",
        day="2026-11-30",
        demand=demand,
        l2_bytes=SM90.l2_bytes,
    )
    return raised(REACHED, before, SM90, said), before


PRODUCT = WorkFloor(flops=780e6 * 100, bytes=1e6)
"""100 us at 780 TFLOP/s."""
COPY = WorkFloor(flops=0.0, bytes=4e9)
"""1000 us at 4000 GB/s."""


def test_a_product_that_beats_the_ceiling_raises_it_and_says_so():
    found, _ = shown(96.0, work=PRODUCT)
    assert found.matrix_tflops["bfloat16"] == pytest.approx(780 / 0.96)
    assert found.matrix_tflops["float16"] == REACHED.matrix_tflops["float16"]
    again = of(size=1e6, flops=780e8, dtypes=("bfloat16",), ceilings=found)
    assert again.us == pytest.approx(96.0)
    assert again.source == ("ceiling raised by gemm to 812.5 TFLOP/s on 2026-11-30, measured 780")
    assert of(size=4e9, ceilings=found).source == "measured ceiling, 2026-11-29"
    assert shown(99.5, work=PRODUCT)[0] is None, "within the noise of a median"


def test_bandwidth_is_raised_by_the_bytes_that_surely_passed_dram():
    found, _ = shown(950.0, work=COPY, dtypes=("float32",), written=2e9)
    assert found.copy_gbps == pytest.approx((4e9 - SM90.l2_bytes) / 950e3)
    assert found.read_gbps == REACHED.read_gbps
    small = WorkFloor(flops=0.0, bytes=2.0 * SM90.l2_bytes)
    us = small.bytes / 8000e3
    found, before = shown(us, work=small, dtypes=("float32",), written=small.bytes / 2)
    assert found is None
    took = Time(kind=Kind.MEASURED, microseconds=us, device="NVIDIA H200")
    assert "bytes that L2 holds need not pass through DRAM" in before.words(took)
    read, _ = shown(870.0, work=COPY, dtypes=("float32",))
    assert read.read_gbps > REACHED.read_gbps
    assert read.copy_gbps == REACHED.copy_gbps


def test_no_ceiling_is_raised_above_the_datasheet():
    assert shown(10.0, work=PRODUCT)[0].matrix_tflops["bfloat16"] == SM90.tensor_tflops["bfloat16"]
    found, _ = shown(100.0, work=COPY, dtypes=("float32",), written=2e9)
    assert found.copy_gbps == SM90.dram_peak_gbps


@pytest.mark.parametrize("how", [{"counted": True}, {"dtypes": ("bfloat16", "float32")}])
def test_what_shows_no_rate_raises_none_and_is_explained(how):
    found, before = shown(20.0, work=PRODUCT, **how)
    assert found is None
    took = Time(kind=Kind.MEASURED, microseconds=20.0, device="NVIDIA H200")
    assert before.above
    assert before.words(took).endswith(f"; {before.above})")
    slower = structs.replace(took, microseconds=2 * before.us)
    assert before.words(slower).startswith("50 % of limit")
    assert before.above not in before.words(slower)


def test_unknown_work_has_no_limit():
    nothing = WorkFloor(flops=0.0, bytes=0.0)
    none = Demand(work=nothing, dtypes={"float32"}, precision=Precision.IEEE)
    assert limit(None, SM90) is None
    assert limit(none, SM90) is None


def test_a_measurement_is_kept_per_gpu_driver_and_torch(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert known_ceilings(GPU) is None
    write_cached(ceilings._file(GPU), REACHED)
    assert known_ceilings(GPU) == REACHED
    assert known_ceilings(structs.replace(GPU, driver="590")) is None
    assert known_ceilings(structs.replace(GPU, uuid="GPU-2")) is None


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff\xfe", b'{"uuid": 3}'])
def test_a_spoilt_file_counts_as_none(tmp_path, text):
    file = tmp_path / "one.json"
    file.write_bytes(text)
    assert read_cached(file, Ceilings) is None


def test_a_folder_that_takes_nothing_is_no_fault(tmp_path):
    (tmp_path / "cache").write_text("a file, where a folder would have to be")
    assert not write_cached(tmp_path / "cache" / "one.json", REACHED)


def test_rates_are_measured_in_a_worker():
    wanted = Wanted(buffer_bytes=1 << 22, side=128, bursts=2)
    with Workshop() as workshop:
        rates = measure_rates(workshop, wanted)
    assert rates.copy_gbps > 0
    assert rates.read_gbps > 0
    assert {"float32", "tf32", "bfloat16"} <= set(rates.matrix_tflops)
    assert not set(rates.matrix_tflops) & set(rates.missing)


def test_what_holds_clocks_down_is_said_in_words():
    assert held_by(None) == held_by(0x1) == ()
    assert held_by(0x24) == ("the power cap", "temperature (software)")
    assert held_by(0x8000) == ("NVML reasons 0x8000",)
    assert hot(0x20)
    assert not hot(0x4 | 0x1)


def test_a_timing_above_its_limit_raises_what_is_kept_for_the_next_session(monkeypatch):
    monkeypatch.setattr(gpuwatch, "list_gpus", lambda: [GPU])
    write_cached(ceilings._file(GPU), REACHED)
    square = TensorEntry(
        name="0", dtype="bfloat16", shape=(4096, 4096), strides=(4096, 1), bytes=1 << 25
    )
    shape = ShapeReport(
        shape="full",
        input_entries=(square, square),
        output_entries=(square,),
        work=WorkFloor(flops=2.0 * 4096**3, bytes=3.0 * (1 << 25)),
    )
    report = ProblemReport(problem="gemm", shapes=(shape,))
    task = Problem(name="gemm", path=None, source="", shapes=(Shape(name="full"),))
    roof = Roof(task, lambda: report, target="sm90", device_index=0, workshop=None)
    before = roof.limit()
    assert before.us == pytest.approx(176.2, abs=0.1)
    assert roof.raised_by(before.us * 1.1, "gemm") == ""
    says = roof.raised_by(165.0, "gemm")
    assert says.startswith("ceiling raised by gemm to 833 TFLOP/s on ")
    assert roof.limit().us == pytest.approx(165.0)
    assert roof.limit().source == says
    assert known_ceilings(GPU).matrix_tflops["bfloat16"] == pytest.approx(833, abs=0.5)


@pytest.mark.gpu
def test_a_gpu_reaches_most_of_its_datasheet():
    with Workshop(device_index=0, preload=(ceilings.JOB_MODULE,)) as workshop:
        measure_rates(workshop, Wanted())
        began = time.monotonic()
        rates = measure_rates(workshop, Wanted())
    print(f"{time.monotonic() - began:.1f} s with a worker's start;", rates)
    assert rates.read_gbps >= 0.9 * rates.copy_gbps
    assert rates.matrix_tflops["bfloat16"] > rates.matrix_tflops["tf32"]
    assert rates.matrix_tflops["tf32"] > rates.matrix_tflops["float32"]
