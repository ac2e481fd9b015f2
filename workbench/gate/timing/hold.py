"""A spin kernel that occupies every SM for some microseconds, so that no other kernel can start.

Runs in workers only, where triton is not the interpreter.
"""

from collections.abc import Callable

import torch
import triton
import triton.language as tl

WARPS = 16
"""Warps of one program: 512 threads divide the thread limit of every SM that we compile for."""


@triton.jit(do_not_specialize=["nanoseconds"])
def hold_kernel(nanoseconds):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201 -- a kernel
    """Keep the threads of every program resident until the time is over."""
    began = tl.inline_asm_elementwise(
        "mov.u64 $0, %globaltimer;", "=l", [], dtype=tl.int64, is_pure=False, pack=1
    )
    now = began
    while now - began < nanoseconds:
        # Sleeps between polls: busy-waiting on all threads would heat the SMs before the call.
        now = tl.inline_asm_elementwise(
            "nanosleep.u32 100; mov.u64 $0, %globaltimer;",
            "=l",
            [],
            dtype=tl.int64,
            is_pure=False,
            pack=1,
        )


def holder(device: str) -> Callable[[float], None]:
    """`hold(microseconds)`, compiled for `device`: queues the kernel on the current stream.

    Its programs fill the thread slots of all SMs, so that a kernel of this process on any stream
    waits for them. They end by the GPU's own timer, whatever happens on the host.
    """
    properties = torch.cuda.get_device_properties(device)
    slots = properties.max_threads_per_multi_processor // (32 * WARPS)
    programs = properties.multi_processor_count * max(slots, 1)

    def hold(microseconds: float) -> None:
        hold_kernel[(programs,)](int(microseconds * 1e3), num_warps=WARPS)

    hold(1.0)
    return hold
