"""The kernel that holds a GPU before a call, as the compiler makes it: it leaves no place free."""

import json
import subprocess
import sys

import pytest

from workbench.kernels.target import TARGETS

COMPILE = """
import json
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from workbench.gate.timing.hold import WARPS, hold_kernel
from workbench.kernels.static import static_profile
from workbench.kernels.target import TARGETS

found = {}
for name, target in TARGETS.items():
    source = ASTSource(fn=hold_kernel, signature={"nanoseconds": "i32"}, constexprs={})
    made = compile(
        source, target=GPUTarget("cuda", target.arch, 32), options={"num_warps": WARPS}
    )
    static = static_profile(
        made.asm["cubin"],
        target,
        shared=made.metadata.shared,
        threads=32 * WARPS,
        spill_store_bytes=0,
        spill_load_bytes=0,
    )
    ptx = made.asm["ptx"]
    found[name] = [static.occupancy, ptx.count("%globaltimer"), "bra" in ptx]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def compiled():
    words = [sys.executable, "-W", "ignore", "-c", COMPILE]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("target", TARGETS)
def test_holding_fills_every_sm_and_ends_by_the_gpu_s_own_timer(compiled, target):
    occupancy, timer_reads, loops = compiled[target]
    assert occupancy == 1.0
    assert timer_reads == 2
    assert loops
