"""What compute-sanitizer prints is understood, old and new forms, and silence is no clean bill."""

import pytest

from workbench.gate.sanitizer.parse import parse
from workbench.gate.sanitizer.records import Place, Space, Tool

NEW_MEMCHECK = """\
========= COMPUTE-SANITIZER
the program says: ========= ERROR SUMMARY: 0 errors
========= Invalid __global__ write of size 4 bytes
=========     at add_relu+0x2f0 in kernel.py:17
=========     by thread (18,0,0) in block (2,0,0)
=========     Access to 0x74505bcccca0 is out of bounds
=========     and is 161 bytes after the nearest allocation at 0x74505bccc800 of size 1,024 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: launch [0x2800] in __triton_launcher.so
=========
========= Invalid __global__ write of size 4 bytes
=========     at add_relu+0x2f0 in kernel.py:17
=========     by thread (19,0,0) in block (2,0,0)
=========     Access to 0x74505bcccca4 is out of bounds
=========     and is 165 bytes after the nearest allocation at 0x74505bccc800 of size 1,024 bytes
=========
========= Program hit CUDA_ERROR_LAUNCH_FAILED (error 719) due to "launch failed" on CUDA API call
=========     Saved host backtrace up to driver entry point at error
=========
========= ERROR SUMMARY: 3 errors
"""

OLD_MEMCHECK = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 16 bytes
=========     at 0xda0 in /scratch/kernel.py:175:fused_moe_kernel
=========     by thread (96,0,0) in block (44,0,0)
=========     Address 0x763995f9f000 is misaligned
=========     Saved host backtrace up to driver entry point at kernel launch time
=========     Host Frame: [0x2f26f0]
=========                in /usr/lib/x86_64-linux-gnu/libcuda.so.1
=========
========= Invalid __shared__ ? of size 2048 bytes
=========     at 0x2570 in /scratch/kernel.py:223:matmul_kernel_0d1d2d
=========     by thread (224,0,0) in block (4,0,0)
=========     Address 0x1bc20 is out of bounds
=========
========= ERROR SUMMARY: 2 errors
"""

INITCHECK = """\
========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 4 bytes
=========     at void at::native::vectorized_elementwise_kernel<4, float>(int, float *)+0x70
=========     by thread (31,0,0) in block (1,0,0)
=========     Address 0x7f3c7ec000fc
=========
========= ERROR SUMMARY: 1 error
"""

RACES = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at turn(int *, int *)+0xf0 in kernel.py:12
=========     and Read access at turn(int *, int *)+0xd0 in kernel.py:14 [32 hazards]
=========     and Write access at turn(int *, int *)+0xf0 in kernel.py:12 [4 hazards]
=========
========= WARN: Race reported between Read access at 0x00000170 in ./kernel.py:4:test(int*, int*)
=========     and Write access at 0x00000148 in ./kernel.py:3:test(int*, int*) [4 hazards]
=========
========= Error: Race reported between Write access at
=========     wrapped(float *)+0xb0 in kernel.py:28
=========     and Read access at
=========     wrapped(float *)+0xc0 in kernel.py:30
=========     [1024 hazards]
=========
========= RACECHECK SUMMARY: 3 hazards displayed (2 errors, 1 warning)
"""


def test_a_bad_store_is_told_with_kernel_line_address_and_how_often():
    said = parse(NEW_MEMCHECK, Tool.MEMCHECK)
    (report,) = said.reports
    assert said.errors == 3
    assert report.place == Place("add_relu", "kernel.py", 17)
    assert (report.access, report.space, report.bytes) == ("write", Space.GLOBAL, 4)
    assert (report.detail, report.address) == ("is out of bounds", "0x74505bcccca0")
    assert report.times == 2


def test_the_older_form_names_the_same_things():
    bad, shared = parse(OLD_MEMCHECK, Tool.MEMCHECK).reports
    assert bad.place == Place("fused_moe_kernel", "/scratch/kernel.py", 175)
    assert (bad.access, bad.detail, bad.bytes) == ("read", "is misaligned", 16)
    assert (shared.access, shared.space) == ("?", Space.SHARED)
    assert shared.place.kernel == "matmul_kernel_0d1d2d"


def test_a_kernel_without_lines_keeps_its_bare_name():
    (report,) = parse(INITCHECK, Tool.INITCHECK).reports
    assert report.place == Place("at::native::vectorized_elementwise_kernel")
    assert (report.access, report.address) == ("read", "0x7f3c7ec000fc")


def test_races_are_told_with_severity_and_both_sides_also_where_lines_are_wrapped():
    said = parse(RACES, Tool.RACECHECK)
    first, second, third = said.reports
    assert said.errors == 2
    assert (first.place.line, first.access, first.detail) == (12, "write and read", "error")
    assert (second.place.kernel, second.detail) == ("test", "warning")
    assert third.place == Place("wrapped", "kernel.py", 28)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "========= COMPUTE-SANITIZER\n",
        "ERROR SUMMARY: 0 errors\n",
        "========= ERROR SUMMARY: 0 errors\n========= ERROR SUMMARY: 0 errors\n",
    ],
)
def test_without_the_tools_one_summary_nothing_counts_as_checked(text):
    assert parse(text, Tool.MEMCHECK).errors is None


def test_the_tools_own_trouble_is_kept():
    text = (
        "========= COMPUTE-SANITIZER\n"
        "========= Error: Target application terminated before first instrumented API call\n"
        "========= Tracking kernels launched by child processes requires ...\n"
    )
    said = parse(text, Tool.MEMCHECK)
    assert said.errors is None
    assert len(said.faults) == 1
