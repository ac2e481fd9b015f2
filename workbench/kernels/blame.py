"""Turns an error inside triton into a fault with the candidate's line and a readable message."""

import re
import types

from triton.compiler.errors import CompilationError
from triton.runtime.errors import OutOfResources, PTXASError
from triton.runtime.jit import JITFunction

from workbench.kernels.faults import MACHINE, CompileFailed, KernelFault, NoRoom, TooLarge
from workbench.kernels.untyped import Untyped

_LONGEST = 400
_FEW_REGISTERS = re.compile(
    r"Insufficient registers \((\d+)\).*?register target of (\d+)", re.DOTALL
)


def line_in(source: str, frame: types.FrameType | None) -> int:
    """Current line of the innermost frame that runs the file `source`; 0 when there is none."""
    while frame is not None:
        if frame.f_code.co_filename == source:
            return frame.f_lineno
        frame = frame.f_back
    return 0


class KernelErrors:
    """A context whose launches fail with the typed faults of `kernels.faults`.

    Only errors from inside triton's launch are converted; the original stays as the cause.
    """

    def __init__(self, source: str, target: str) -> None:
        self._source = source
        self._target = target

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(
        self, _kind: object, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        """Raise the typed fault in place of triton's error."""
        if not isinstance(error, Exception) or isinstance(error, KernelFault):
            return
        launch, line = _launch_of(trace, self._source)
        if launch is not None:
            raise self._fault(error, launch, line) from error

    def _fault(self, error: Exception, launch: JITFunction, line: int) -> KernelFault:
        kernel = launch.fn.__name__
        if isinstance(error, OutOfResources):
            return TooLarge(
                kernel=kernel,
                line=line,
                resource=error.name,
                required=error.required,
                limit=error.limit,
                target=self._target,
            )
        if isinstance(error, CompilationError):
            return _language_error(error, launch, line)
        if isinstance(error, PTXASError):
            return self._ptxas_fault(str(error), kernel, line)
        if isinstance(error, OSError) and error.errno in MACHINE:
            return NoRoom(error, kernel=kernel, line=line)
        said = str(error).strip() or type(error).__name__
        return CompileFailed(_short(said), kernel=kernel, line=line)

    def _ptxas_fault(self, text: str, kernel: str, line: int) -> KernelFault:
        few = _FEW_REGISTERS.search(text)
        if few is None:
            return CompileFailed(_ptxas_message(text), kernel=kernel, line=line)
        return TooLarge(
            kernel=kernel,
            line=line,
            resource="registers per thread",
            required=int(few.group(2)),
            limit=int(few.group(1)),
            target=self._target,
        )


def _launch_of(trace: types.TracebackType | None, source: str) -> tuple[JITFunction | None, int]:
    """The kernel whose launch is in the traceback, and the candidate's line that launched it."""
    line = 0
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename == source:
            line = trace.tb_lineno
        if code is JITFunction.run.__code__:
            return trace.tb_frame.f_locals["self"], line
        trace = trace.tb_next
    return None, line


def _language_error(error: CompilationError, launch: JITFunction, line: int) -> CompileFailed:
    """The fault of the innermost of triton's nested errors, with the line where it occurred."""
    inner = error
    said = error.error_message or ""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, CompilationError):
            inner = cause
            said = cause.error_message or said
        elif not said:
            said = f"{type(cause).__name__}: {cause}"
        cause = cause.__cause__
    function = _function_of(inner.src, launch)
    number = getattr(inner.node, "lineno", None)
    if number is None and function is None:
        # Raised without a place, as for a name that is not ASCII: the text is the message.
        said = said or str(inner.src or "")
    if function is not None and number is not None:
        line = _first_line(function) + number - 1
    text = _line_of(inner.src, number)
    what = _short(said or "does not compile") + (f" at `{text}`" if text else "")
    return CompileFailed(what, kernel=launch.fn.__name__, line=line)


def _line_of(src: str | None, number: int | None) -> str:
    """Line `number` of a source text; empty if it has no such line.

    Triton sometimes gives a caller's line number with the callee's text.
    """
    lines = (src or "").splitlines()
    return lines[number - 1].strip() if number and number <= len(lines) else ""


def _function_of(src: str | None, launch: JITFunction) -> Untyped:
    """The jit function with that source text: the kernel, or one that it calls."""
    named = [launch, *launch.fn.__globals__.values()]
    return next((f for f in named if isinstance(f, JITFunction) and f.src == src), None)


def _first_line(function: JITFunction) -> int:
    """Line of `def`, after the decorators; triton 3.6 and 3.9 name this attribute differently."""
    number = getattr(function, "def_file_line_number", None)
    if number is not None:
        return int(number)
    from triton.runtime.jit import get_jit_fn_file_line

    return int(get_jit_fn_file_line(function)[1])


def _ptxas_message(text: str) -> str:
    said = [line for line in text.splitlines() if re.search(r"error|fatal", line, re.IGNORECASE)]
    return "ptxas: " + _short("; ".join(said[:3]) or text)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
