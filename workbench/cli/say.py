"""All of stderr and every exit code: 0 yes, 1 a clean no, 2 bad usage or environment."""

import enum
import sys
import traceback

from workbench.errors import WorkbenchError


class Exit(enum.IntEnum):
    """What the shell is told."""

    YES = 0
    NO = 1
    """Rejected, vetoed, verification failed: the command worked and the answer is no."""
    BAD = 2
    """Bad usage, input or environment; nothing was changed."""
    INTERRUPTED = 130


def note(text: str) -> None:
    """Something a person should know, on stderr, so that stdout stays the result."""
    print(text, file=sys.stderr, flush=True)


def explain(fault: BaseException, *, debug: bool) -> Exit:
    """Print what went wrong in the reader's terms and return the exit code for it."""
    if debug:
        traceback.print_exception(fault)
    if isinstance(fault, WorkbenchError):
        note(f"workbench: {fault}")
    elif isinstance(fault, KeyboardInterrupt):
        return Exit.INTERRUPTED
    elif isinstance(fault, OSError):
        where = f"\n  where: {fault.filename}" if fault.filename else ""
        note(f"workbench: {fault.strerror or fault}{where}")
    else:
        last = traceback.extract_tb(fault.__traceback__)
        place = f" ({last[-1].name}, line {last[-1].lineno})" if last else ""
        note(
            f"workbench: an error of the workbench itself: {type(fault).__name__}: {fault}{place}\n"
            "  to do: repeat the command with --debug and report what it prints"
        )
    return Exit.BAD
