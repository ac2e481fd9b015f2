"""A candidate's exception as data: the root cause, and the responsible line of its own file."""

import traceback
from pathlib import Path

from workbench.gate.correctness.protocol import Raised
from workbench.kernels.faults import MACHINE, AccessOutOfBounds, CannotJudge, KernelFault

_LONGEST = 600
"""Characters of a message. Ours: enough for Triton's own errors, short enough for a screen."""


def raised_by(fault: BaseException, file: Path) -> Raised:
    """Describe an exception from the candidate's code.

    The interpreter's own faults describe themselves; of any other the innermost cause is reported.
    """
    if isinstance(fault, KernelFault):
        return Raised(
            kind=type(fault).__name__,
            message=fault.what[:_LONGEST],
            line=fault.line or None,
            kernel=fault.kernel,
            out_of_bounds=fault.record if isinstance(fault, AccessOutOfBounds) else None,
            not_judged=fault.thing if isinstance(fault, CannotJudge) else "",
            doubt=fault.doubt if isinstance(fault, CannotJudge) else "",
        )
    chain = [fault]
    while chain[-1].__cause__ is not None and len(chain) < 20:
        chain.append(chain[-1].__cause__)
    frames = [frame for link in chain for frame in traceback.extract_tb(link.__traceback__)]
    own = [frame.lineno for frame in frames if frame.filename == str(file)]
    root = chain[-1]
    spoilt = isinstance(root, OSError) and root.errno in MACHINE
    line = own[-1] if own else None
    if line is None and isinstance(root, SyntaxError):
        line = root.lineno
    message = _text(root)[:_LONGEST]
    return Raised(
        kind=type(root).__name__,
        message=message,
        line=line,
        not_judged=message if spoilt else "",
    )


def _text(fault: BaseException) -> str:
    """Its message; a foreign exception's own `__str__` may raise."""
    try:
        return str(fault)
    except Exception as again:  # noqa: BLE001 -- whatever it is, the fault must still be told
        return f"<unprintable: {type(again).__name__}>"
