"""What a GPU reaches: measured in a worker, kept, and what times are told against."""

import pytest
from msgspec import structs

from workbench.isolation.workshop import Workshop
from workbench.kernels.target import target
from workbench.measure import ceilings
from workbench.measure.ceilings import Ceilings, Wanted, known_ceilings, measure_rates
from workbench.measure.floor import limit
from workbench.measure.gpus import Gpu
from workbench.measure.gpuwatch import held_by, hot
from workbench.measure.keeping import keep, kept
from workbench.measure.records import Kind, Time
from workbench.problems.records import Precision, WorkFloor

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
    return limit(
        WorkFloor(flops=flops, bytes=size),
        SM90,
        dtypes=set(dtypes),
        precision=Precision.IEEE,
        written=size / 2 if written is None else written,
        ceilings=ceilings,
    )


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
    time = Time(kind=Kind.MEASURED, microseconds=2000.0, device="NVIDIA H200")
    assert of(size=4e9).words(time) == "50 % of limit (memory, measured ceiling, 2026-11-29)"


def test_unknown_work_has_no_limit():
    known = {"dtypes": {"float32"}, "precision": Precision.IEEE, "written": 0.0}
    assert limit(None, SM90, **known) is None
    assert limit(WorkFloor(flops=0.0, bytes=0.0), SM90, **known) is None


def test_a_measurement_is_kept_per_gpu_driver_and_torch(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert known_ceilings(GPU) is None
    keep(ceilings._file(GPU), REACHED)
    assert known_ceilings(GPU) == REACHED
    assert known_ceilings(structs.replace(GPU, driver="590")) is None
    assert known_ceilings(structs.replace(GPU, uuid="GPU-2")) is None


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff\xfe", b'{"uuid": 3}'])
def test_a_spoilt_file_counts_as_none(tmp_path, text):
    file = tmp_path / "one.json"
    file.write_bytes(text)
    assert kept(file, Ceilings) is None


def test_a_folder_that_takes_nothing_is_no_fault(tmp_path):
    (tmp_path / "cache").write_text("a file, where a folder would have to be")
    assert not keep(tmp_path / "cache" / "one.json", REACHED)


def test_rates_are_measured_in_a_worker():
    wanted = Wanted(buffer_bytes=1 << 22, side=128, seconds=0.001)
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


@pytest.mark.gpu
def test_a_gpu_reaches_most_of_its_datasheet():
    with Workshop(device_index=0, preload=(ceilings.JOB_MODULE,)) as workshop:
        rates = measure_rates(workshop, Wanted())
    assert rates.read_gbps >= 0.9 * rates.copy_gbps
    assert rates.matrix_tflops["bfloat16"] > rates.matrix_tflops["tf32"]
    assert rates.matrix_tflops["tf32"] > rates.matrix_tflops["float32"]
