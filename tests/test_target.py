"""Targets and the occupancy rules, against what CUDA itself answered on an H200."""

import pytest

from workbench.errors import WorkbenchError
from workbench.kernels.occupancy import occupancy
from workbench.kernels.target import TARGETS, target

# registers, shared bytes, threads -> cuOccupancyMaxActiveBlocksPerMultiprocessor, H200, driver 580
ANSWERED = [
    (10, 0, 128, 16),
    (14, 0, 32, 32),
    (28, 0, 256, 8),
    (34, 16, 128, 12),
    (40, 32, 256, 6),
    (44, 0, 128, 10),
    (60, 0, 256, 4),
    (64, 64, 512, 2),
    (72, 65536, 128, 3),
    (116, 98304, 256, 2),
    (119, 0, 256, 2),
    (127, 98304, 128, 2),
    (132, 49152, 128, 3),
    (168, 49152, 128, 3),
    (198, 147456, 256, 1),
    (239, 90112, 128, 2),
]


@pytest.mark.parametrize(("registers", "shared", "threads", "programs"), ANSWERED)
def test_occupancy_is_what_cuda_answers(registers, shared, threads, programs):
    found = occupancy(target("sm90"), registers=registers, shared=shared, threads=threads)
    assert found.programs_per_sm == programs
    assert found.occupancy == programs * threads / 2048


@pytest.mark.parametrize(
    ("registers", "shared", "threads", "limiter"),
    [
        (168, 0, 128, "registers"),
        (32, 100_000, 128, "shared"),
        (32, 0, 512, "registers"),
        (16, 0, 512, "warps"),
        (16, 0, 32, "programs"),
    ],
)
def test_the_limiter_is_the_scarcest_resource(registers, shared, threads, limiter):
    found = occupancy(target("sm90"), registers=registers, shared=shared, threads=threads)
    assert found.limiter == limiter
    assert found.programs_per_sm == min(found.by.values())


def test_a_kernel_that_cannot_fit_has_no_programs():
    too_big = occupancy(target("sm120"), registers=32, shared=120_000, threads=128)
    assert (too_big.programs_per_sm, too_big.limiter) == (0, "shared")
    too_many = occupancy(target("sm90"), registers=256, shared=0, threads=128)
    assert too_many.programs_per_sm == 0


def test_registers_come_in_whole_units_per_warp():
    # 33 registers cost as much as 40: 32 times 33 is rounded up to 1280.
    one, other = (occupancy(target("sm90"), registers=r, shared=0, threads=32) for r in (33, 40))
    assert one.by["registers"] == other.by["registers"] == 48


def test_each_program_reserves_a_kibibyte_of_shared_memory():
    fits = occupancy(target("sm90"), registers=16, shared=113 * 1024, threads=128)
    assert fits.by["shared"] == 2
    over = occupancy(target("sm90"), registers=16, shared=113 * 1024 + 1, threads=128)
    assert over.by["shared"] == 1


def test_an_unknown_target_is_refused_with_the_known_ones():
    with pytest.raises(WorkbenchError) as refused:
        target("sm70")
    assert all(name in refused.value.todo for name in TARGETS)


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_does_not_contradict_itself(name):
    one = target(name)
    assert one.name == f"sm{one.arch}"
    assert one.dram_gbps < one.dram_peak_gbps < one.l2_gbps
    assert one.shared_per_program + one.shared_reserved == one.shared_per_sm
    assert one.shared_per_sm < one.l1_bytes
    # An FMA on each of 128 lanes of every SM, at the boost clock.
    assert one.fp32_tflops == pytest.approx(one.sms * 256 * one.clock_mhz * 1e-6, rel=0.01) or (
        name == "sm80" and one.fp32_tflops == pytest.approx(one.sms * 128 * 1410e-6, rel=0.01)
    )
