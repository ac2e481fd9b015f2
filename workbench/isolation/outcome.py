"""How a call to a worker can end other than by a reply."""

from workbench.errors import WorkbenchError


class WorkerFault(WorkbenchError):
    """Base of the four ways a call can fail; catch this to catch them all."""


class WorkerDied(WorkerFault):
    """The worker ended before it answered. It is closed; its siblings are untouched.

    `how` is `exited`, `killed by signal`, `memory limit`, `gpu memory limit`, `task limit`,
    `scratch limit`, `closed` (by the judge, from another thread) or `lost` (its keeper vanished).
    `exit_code`, `signal`, and `held` and `limit` of a limit (bytes or tasks) are None where they
    do not apply; `stderr` is the tail of what it wrote there.
    """

    def __init__(
        self,
        how: str,
        *,
        exit_code: int | None = None,
        signal: int | None = None,
        held: int | None = None,
        limit: int | None = None,
        stderr: str = "",
    ) -> None:
        self.how = how
        self.held = held
        self.limit = limit
        self.exit_code = exit_code
        self.signal = signal
        self.stderr = stderr
        number = f" {exit_code}" if exit_code is not None else f" {signal}" if signal else ""
        super().__init__(f"the worker died: {how}{number}", where=_last_line(stderr))


class WorkerTimedOut(WorkerFault):
    """The worker did not answer within `seconds`; it was killed with everything it had started.

    `busy` says whether it computed for most of that time, `cpu_seconds` of it. One that did not has
    waited for something, or the machine had other work: nothing can be said of what runs in it.
    """

    def __init__(
        self, seconds: float, *, busy: bool = True, cpu_seconds: float = 0.0, stderr: str = ""
    ) -> None:
        self.seconds = seconds
        self.busy = busy
        self.cpu_seconds = cpu_seconds
        self.stderr = stderr
        idle = "" if busy else f", of which it computed for {cpu_seconds:.1f} s"
        super().__init__(
            f"the worker gave no answer within {seconds:g} s{idle}", where=_last_line(stderr)
        )


class WorkerBroke(WorkerFault):
    """The worker broke the protocol (`fault` says how); it was killed, nothing it said counts."""

    def __init__(self, fault: str, *, stderr: str = "") -> None:
        self.fault = fault
        self.stderr = stderr
        super().__init__(f"the worker broke the protocol: {fault}", where=_last_line(stderr))


class JobFailed(WorkerFault):
    """The job itself raised. The worker lives on and can be called again.

    `kind` is the exception's class name, `message` its text, `line` the line in the deepest file
    of the scratch folder that the traceback passes (None where it passes none), `trace` the
    traceback as text. All four are the worker's words: to be shown, never to be believed.
    """

    def __init__(self, kind: str, message: str, line: int | None, trace: str) -> None:
        self.kind = kind
        self.message = message
        self.line = line
        self.trace = trace
        at = "" if line is None else f"line {line}"
        super().__init__(f"{kind}: {message}" if message else kind, where=at)


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return f"stderr: {lines[-1][:200]}" if lines else ""
