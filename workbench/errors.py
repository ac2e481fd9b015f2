"""What a person is told when the workbench cannot go on: what happened, where, and what to do."""


class WorkbenchError(Exception):
    """A fault a person can act on; printed as text without a traceback, exit code 2.

    `what` happened, as one sentence without a full stop; `where` (file, key, line, session) or
    empty; `todo` says what to type or change next, or is empty when nothing can be done.
    """

    def __init__(self, what: str, *, where: str = "", todo: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.todo = todo

    def __str__(self) -> str:
        """All three parts, a line each, as a terminal shows them."""
        lines = [self.what]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.todo:
            lines.append(f"  to do: {self.todo}")
        return "\n".join(lines)


def reason(fault: Exception) -> str:
    """Why a file could not be used, without the number and the path that Python puts around it."""
    return (fault.strerror if isinstance(fault, OSError) else None) or str(fault)
