"""All of stderr and every exit code: 0 yes, 1 a clean no, 2 bad usage or environment."""

import contextlib
import enum
import errno
import sys
import traceback

from workbench.cli import emit
from workbench.engine.visible import visible
from workbench.errors import WorkbenchError


class Exit(enum.IntEnum):
    """What the shell is told."""

    YES = 0
    NO = 1
    """Rejected, vetoed, verification failed: the command worked and the answer is no."""
    BAD = 2
    """Bad usage, input or environment; nothing was changed."""
    INTERRUPTED = 130


_OUTSIDE = {
    errno.ENOSPC: "free some space, or choose another folder",
    errno.EROFS: "choose a folder that you can write to",
    errno.EACCES: "choose a file or folder that you may read and write",
    errno.ENOENT: "check the path; a folder must be there before a file in it",
    errno.EISDIR: "name a file, not a folder",
    errno.ENOTDIR: "a part of the path is a file; check the path",
}
"""What to do about a fault of the file system that no command foresaw."""


def note(text: str) -> None:
    """Something a person should know, on stderr, so that stdout stays the result."""
    # Where stderr is closed `print` would take stdout.
    if sys.stderr is not None:
        print(visible(text), file=sys.stderr, flush=True)


def explain(fault: BaseException, *, debug: bool, json: bool = False) -> Exit:
    """Say what went wrong in the reader's terms and return the exit code for it.

    With `json` stdout also gets one line `{"error": {"what": .., "where": .., "todo": ..}}`, the
    same three parts for every fault.
    """
    if debug:
        traceback.print_exception(fault)
    if isinstance(fault, KeyboardInterrupt):
        return Exit.INTERRUPTED
    told = _told(fault)
    if told.what.startswith("Usage: "):
        # A group of commands without one of them: its help is the answer.
        note(told.what)
        return Exit.BAD
    note(f"workbench: {told}")
    if json:
        with contextlib.suppress(OSError, WorkbenchError, emit.ReaderLeft):
            # Where stdout is what failed, stderr has said so.
            emit.json({"error": {"what": told.what, "where": told.where, "todo": told.todo}})
    return Exit.BAD


def _told(fault: BaseException) -> WorkbenchError:
    if isinstance(fault, WorkbenchError):
        return fault
    if isinstance(fault, OSError):
        return WorkbenchError(
            fault.strerror or str(fault),
            where=str(fault.filename or ""),
            todo=_OUTSIDE.get(fault.errno or 0, "check the path and what you may do there"),
        )
    usage = getattr(fault, "format_message", None)
    if callable(usage):
        return _usage(fault, str(usage()))
    last = traceback.extract_tb(fault.__traceback__)
    place = f" ({last[-1].name}, line {last[-1].lineno})" if last else ""
    return WorkbenchError(
        f"an error of the workbench itself: {type(fault).__name__}: {fault}{place}",
        todo="repeat the command with --debug and report what it prints",
    )


def _usage(fault: BaseException, message: str) -> WorkbenchError:
    """What the parser of the command line refused, in our three parts."""
    context = getattr(fault, "ctx", None)
    command = str(getattr(context, "command_path", "workbench"))
    message = message.replace("Value error, ", "").rstrip(".")
    return WorkbenchError(message, where=command, todo=f"{command} --help")
