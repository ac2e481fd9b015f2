"""What a person is told when the workbench cannot go on: what happened, where, and what to do."""


class WorkbenchError(Exception):
    """A fault a person can act on; printed as text without a traceback, exit code 2.

    `what`: what happened, one sentence without a full stop.
    `where`: the file, key, line or session concerned; empty when there is none.
    `todo`: what to type or change next; empty when nothing can be done.
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
    """What went wrong, without the error number and path that Python adds to an OSError."""
    return (fault.strerror if isinstance(fault, OSError) else None) or str(fault)
