"""Modeled times against an H200: `bench/h200.json` holds what ran there and its time.

The recorded launches and traces beside each time were made without a GPU by
`calibration/collect.py`; here they only feed a pure function.
"""

import json
import math
import statistics
from itertools import combinations

import msgspec
import pytest
from msgspec import structs

from workbench.bench.model import RECORDED
from workbench.kernels.records import HostOperation, Launch, LaunchTrace
from workbench.kernels.target import target
from workbench.measure.model import CannotModel, modeled_time
from workbench.measure.parts import in_words, largest_part
from workbench.measure.records import Kind, Time
from workbench.problems.records import WorkFloor

KNOWN = {one["name"]: one for one in json.loads(RECORDED.read_text())["variants"]}
SM90 = target("sm90")


def call(name):
    return (
        msgspec.convert(KNOWN[name]["launches"], list[Launch]),
        msgspec.convert(KNOWN[name]["traces"], list[LaunchTrace]),
    )


def modeled(name):
    return modeled_time(*call(name), SM90).microseconds


def changed(name, *, launch=(), static=(), trace=()):
    """One launch with other fields, and its time."""
    (one,), (seen,) = call(name)
    one = structs.replace(one, static=structs.replace(one.static, **dict(static)), **dict(launch))
    return modeled_time([one], [structs.replace(seen, **dict(trace))], SM90).microseconds


VARIANTS = [name for name in KNOWN if ": " in name]
"""What edits made of the shipped seeds; the model's constants were not fitted to them."""
FITTED = [name for name in KNOWN if name not in VARIANTS]


@pytest.mark.parametrize("name", FITTED)
def test_every_kernel_is_within_a_factor_of_two(name):
    assert 0.5 < modeled(name) / KNOWN[name]["us"] < 2.0


def test_most_kernels_are_close():
    off = sorted(abs(math.log(modeled(name) / KNOWN[name]["us"])) for name in FITTED)
    assert statistics.median(off) < math.log(1.1)
    assert off[len(off) * 9 // 10] < math.log(1.3)


def test_most_variants_that_it_was_not_fitted_to_are_within_a_factor_of_two():
    off = sorted(abs(math.log(modeled(name) / KNOWN[name]["us"])) for name in VARIANTS)
    assert statistics.median(off) < math.log(1.25)
    assert off[len(off) * 85 // 100] < math.log(2.0)


FAMILIES = (
    "copy64M",
    "copy_n",
    "exp16M",
    "fma16M",
    "stride",
    "softmax3_98304 softmax2_98304 softmax1_98304",
    "softmax3_4096 softmax1_4096",
    "matvec_2048",
    "matvec_64",
    "gemm_bf16",
    "linear_ieee",
    "linear_tf32_",
    "linear_tf32x3",
    "linear_ieee_128x64 linear_tf32_128x64 linear_tf32x3_128x64",
    "atomic",
    "persist",
)


@pytest.mark.parametrize("family", FAMILIES)
def test_variants_are_ranked_as_the_gpu_ranks_them(family):
    """Wherever the GPU tells two variants apart by a third, the model agrees which is faster."""
    names = [name for name in KNOWN if name.startswith(tuple(family.split()))]
    assert len(names) > 1
    for one, other in combinations(names, 2):
        fast, slow = sorted((one, other), key=lambda name: KNOWN[name]["us"])
        if KNOWN[slow]["us"] > 4 / 3 * KNOWN[fast]["us"]:
            assert modeled(fast) < modeled(slow), f"{fast} against {slow}"


@pytest.mark.parametrize(
    ("fast", "slow"),
    [
        ("softmax1_4096_w8", "softmax3_4096_B1024"),
        ("softmax2_98304_B1024_w4", "softmax3_98304_B1024_w4"),
        ("softmax2_98304_B1024_w4", "softmax1_98304_w16"),
        ("copy64M_B1024_w4", "copy64M_B128_w4"),
        ("copy64M_B1024_w4", "copy64M_B1024_misaligned"),
        ("persist_copy_p264_B4096", "persist_copy_p132_B4096"),
        ("matvec_64_split16", "matvec_64_B4096_w8"),
        ("gemm_bf16_128x128x64_w8s3g1", "gemm_bf16_64x64x32_w4s3g1"),
        ("gemm_bf16_64x64x32_w4s3g1", "gemm_bf16_32x32x32_w4s2g1"),
        ("linear_tf32_128x64x32_w4s4", "linear_tf32x3_128x64x32_w4s4"),
        ("linear_tf32x3_128x64x32_w4s4", "linear_ieee_128x64x32_w4s4"),
        ("atomic_1048576", "atomic_256"),
    ],
)
def test_the_better_of_two_known_variants_is_modeled_faster(fast, slow):
    assert modeled(fast) < modeled(slow)


def test_grouped_tiles_are_not_slower():
    grouped, plain = "gemm_bf16_128x128x64_w8s3g8", "gemm_bf16_128x128x64_w8s3g1"
    assert modeled(grouped) <= 1.001 * modeled(plain)


def test_a_modeled_time_says_what_it_is_and_what_it_is_made_of():
    time = modeled_time(*call("softmax3_98304_B1024_w4"), SM90)
    assert (time.kind, time.device, time.low, time.samples) == (Kind.MODELED, "sm90", None, 0)
    assert {"dram", "l2", "fp32", "integer", "special", "tensor", "shared"} <= set(time.detail)
    assert {"latency", "programs", "atomics", "host", "launch", "floor"} <= set(time.detail)
    assert max(time.detail, key=time.detail.get) == "dram"


def test_compulsory_bytes_are_the_least_of_what_dram_takes_and_no_part_of_their_own():
    detail = {"dram": 10.0, "fp32": 15.0, "floor": 20.0}
    time = Time(kind=Kind.MODELED, microseconds=20.0, device="sm90", detail=detail)
    assert largest_part(time, (), (), SM90) == ("dram", 20.0 / 35.0)
    assert in_words("floor") == "compulsory bytes alone"


def test_the_binding_resource_is_named():
    def binding(name):
        detail = modeled_time(*call(name), SM90).detail
        return max(detail, key=detail.get)

    assert binding("exp16M_R64") == "special"
    assert binding("fma16M_R256") == "fp32"
    assert binding("gemm_bf16_64x64x32_w4s3g1") == "l2"
    assert binding("matvec_64_B1024_w4") == "latency"
    assert binding("copy64M_B128_w1") == "programs"
    assert binding("atomic_1") == "atomics"
    assert binding("seed_top_k") == "latency"


def test_fewer_resident_programs_are_slower_where_loads_are_waited_for():
    plain = modeled("seed_group_conv")
    assert changed("seed_group_conv", static={"programs_per_sm": 1}) > 1.5 * plain


def test_spills_cost_what_they_move():
    spilled = {"spill_store_bytes": 4000, "spill_load_bytes": 4000, "stack_bytes": 4000}
    assert changed("softmax1_4096_w8", static=spilled) > 3 * modeled("softmax1_4096_w8")


def test_one_program_more_than_a_wave_holds_costs_a_wave():
    name = "linear_ieee_128x128x16_w8s3"
    (_,), (trace,) = call(name)
    (pipe, flops), *_rest = trace.dot_flops.items()

    def with_programs(count):
        dots = {pipe: flops * count / trace.programs}
        return changed(name, trace={"programs": count, "dot_flops": dots})

    assert with_programs(133) > 1.8 * with_programs(132)
    assert with_programs(132) < 1.1 * with_programs(100)


def test_operations_of_the_host_are_charged():
    launches, traces = call("copy_n4194304_B1024")
    moved = HostOperation(name="aten::clone", bytes=1 << 30, line=3)
    with_copy = modeled_time(launches, traces, SM90, host=[moved]).microseconds
    alone = modeled_time(launches, traces, SM90).microseconds
    assert with_copy - alone == pytest.approx((1 << 30) / 4271e3 + SM90.launch_us, rel=1e-6)


def test_no_time_is_below_the_work_that_must_be_done():
    launches, traces = call("copy_n65536_B1024")
    floor = WorkFloor(flops=0.0, bytes=4271e6)
    assert modeled_time(launches, traces, SM90, floor).microseconds == pytest.approx(1000.0)


def test_more_launches_cost_more():
    launches, traces = call("copy_n65536_B1024")
    twice = modeled_time(launches * 2, traces * 2, SM90).microseconds
    once = modeled_time(launches, traces, SM90).microseconds
    assert twice >= once + SM90.launch_us


def test_the_same_evidence_gives_the_same_time():
    assert modeled("seed_gemm") == modeled("seed_gemm")


@pytest.mark.parametrize("name", ["sm80", "sm100", "sm120"])
def test_other_targets_are_modeled_by_their_own_numbers(name):
    other = target(name)
    launches, traces = call("softmax3_98304_B1024_w4")
    time = modeled_time(launches, traces, other).microseconds
    assert time == pytest.approx(
        modeled("softmax3_98304_B1024_w4") * 4271 / other.dram_gbps, rel=0.3
    )


def test_what_does_not_belong_together_is_refused():
    launches, _ = call("seed_gemm")
    _, others = call("seed_softmax")
    with pytest.raises(CannotModel, match="differ"):
        modeled_time(launches, others, SM90)
    with pytest.raises(CannotModel, match="differ"):
        modeled_time(launches, [], SM90)
    with pytest.raises(CannotModel, match="no kernel"):
        modeled_time([], [], SM90)
    with pytest.raises(CannotModel, match="fits"):
        changed("seed_gemm", static={"programs_per_sm": 0})


def test_a_trace_of_which_no_program_ran_gives_a_finite_time():
    assert math.isfinite(changed("seed_softmax", trace={"sampled": 0}))
