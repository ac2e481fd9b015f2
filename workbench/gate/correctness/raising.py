"""What a candidate's exception means: its fault, a bad address, or a missing feature. Pure."""

from workbench.gate.correctness.protocol import Raised
from workbench.gate.memory import too_much
from workbench.gate.records import Blame, Finding
from workbench.isolation.gpumemory import DeviceUse
from workbench.kernels.records import OutOfBounds

_BAD_ADDRESS = ("illegal memory access", "misaligned address", "device-side assert")
"""CUDA's messages for it."""


def explain(raised: Raised, doing: str, use: DeviceUse | None = None) -> Finding:
    """The finding for an exception of the candidate while it was `doing` something.

    `use` is its GPU memory at that moment, where it runs on one.
    """
    if (memory := too_much(raised, doing, use)) is not None:
        return memory
    if raised.out_of_bounds is not None:
        return _out_of_bounds(raised.out_of_bounds)
    if raised.not_judged:
        return Finding(
            code=f"correctness.{raised.doubt or 'cannot-judge'}",
            says=f"{raised.kernel or 'the kernel'}: {raised.message}",
            line=raised.line,
            blame=Blame.MACHINE,
            evidence={"needs": "a GPU"},
        )
    if raised.kind == "SystemExit":
        says = f"{doing} ends the process instead of returning"
        return Finding(code="correctness.exited-early", says=says, line=raised.line)
    if raised.kernel:
        says = f"kernel {raised.kernel} fails: {raised.message}"
    else:
        says = f"{doing} raises {raised.kind}: {raised.message}"
    if any(words in raised.message for words in _BAD_ADDRESS):
        return Finding(code="correctness.out-of-bounds", says=says, line=raised.line)
    return Finding(code="correctness.raised", says=says, line=raised.line)


def compiles_late(raised: Raised, doing: str) -> Finding:
    """The finding where a program was refused to a candidate that is being timed.

    Most likely Triton's compiler for a specialization that no earlier call has asked for, which is
    no fault; but such a call's time would be the compiler's.
    """
    says = (
        f"{doing} starts a program, or opens a file that it may not, in a timed call: every kernel "
        f"has to be compiled by the calls before ({raised.message})"
    )
    return Finding(
        code="correctness.compiles-late", says=says, line=raised.line, blame=Blame.MACHINE
    )


def _out_of_bounds(bad: OutOfBounds) -> Finding:
    lanes = "1 lane" if bad.lanes == 1 else f"{bad.lanes} lanes"
    return Finding(
        code="correctness.out-of-bounds",
        says=(
            f"{bad.kernel} has a {bad.access} outside of every tensor: {lanes} of program "
            f"{bad.program}, {bad.offset_bytes} bytes from the start of `{bad.argument}`"
        ),
        line=bad.line or None,
        evidence={
            "kernel": bad.kernel,
            "access": bad.access,
            "lanes": bad.lanes,
            "program": ",".join(map(str, bad.program)),
            "argument": bad.argument,
            "offset_bytes": bad.offset_bytes,
        },
    )
