"""Errors of a candidate's kernels before anything is timed: compiling, fitting, running."""

import errno

from workbench.errors import WorkbenchError
from workbench.kernels.records import OutOfBounds


class KernelFault(WorkbenchError):
    """Base class of kernel faults. `line` is in the candidate's file; 0 when unknown."""

    def __init__(self, what: str, *, kernel: str, line: int, todo: str = "") -> None:
        where = f"kernel {kernel}" + (f", line {line}" if line else "")
        super().__init__(what, where=where, todo=todo)
        self.kernel = kernel
        self.line = line


class CompileFailed(KernelFault):
    """The compiler refuses the kernel; `what` carries its message, shortened for a person."""


class TooLarge(KernelFault):
    """The compiled kernel does not fit the target."""

    def __init__(
        self,
        *,
        kernel: str,
        line: int,
        resource: str,
        required: int,
        limit: int,
        target: str,
        todo: str = "smaller blocks, or fewer stages or warps",
    ) -> None:
        super().__init__(
            f"needs {required:,} of {resource}, {target} has {limit:,}",
            kernel=kernel,
            line=line,
            todo=todo,
        )
        self.resource = resource
        self.required = required
        self.limit = limit


class AccessOutOfBounds(KernelFault):
    """An active lane reached outside the tensor that its pointer came from."""

    def __init__(self, record: OutOfBounds, *, storage_bytes: int) -> None:
        verb = {"load": "reads", "store": "writes", "atomic": "updates"}[record.access]
        super().__init__(
            f"{verb} outside {record.argument}: {record.lanes} lanes of program {record.program}, "
            f"first at byte {record.offset_bytes:,} of {storage_bytes:,}",
            kernel=record.kernel,
            line=record.line,
            todo="mask the lanes past the end, or fix the offset",
        )
        self.record = record


class CannotJudge(KernelFault):
    """The interpreter might answer wrongly here, so it does not answer. Not the kernel's fault.

    `doubt` is the code of a doubt that no GPU run can settle either: `lanes-race`,
    `launches-race`, `loads-ahead`, `false-hint`.
    """

    def __init__(self, thing: str, *, kernel: str = "", line: int = 0, doubt: str = "") -> None:
        super().__init__(
            f"the interpreter cannot judge {thing}",
            kernel=kernel,
            line=line,
            todo="judge this candidate on a GPU",
        )
        self.thing = thing
        self.doubt = doubt


MACHINE = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EIO}
    | {errno.EAGAIN}
)
"""Faults of the operating system that say something of the machine and nothing of a kernel."""


class NoRoom(CannotJudge):
    """The machine could not do its part: a full disk, no memory, too many open files."""

    def __init__(self, error: OSError, *, kernel: str, line: int) -> None:
        says = error.strerror or str(error)
        KernelFault.__init__(
            self,
            f"this machine could not compile the kernel: {says}",
            kernel=kernel,
            line=line,
            todo="see that the folder of TMPDIR has space and the process its limits, then gate "
            "it again",
        )
        self.thing = says
        self.doubt = ""


class KernelRaised(KernelFault):
    """Interpreting the kernel raised: a shape, type or value that the language does not allow."""
