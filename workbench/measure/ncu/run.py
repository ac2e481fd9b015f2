"""Runs Nsight Compute over a program and always returns a record."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, structs

from workbench.measure.ncu.command import (
    CACHE_CONTROL,
    CLOCK_CONTROL,
    find_ncu,
    profile_command,
    read_command,
    version_of,
)
from workbench.measure.ncu.parse import Printed, parse_raw
from workbench.measure.ncu.reaper import TIMED_OUT
from workbench.measure.ncu.records import NcuRecord, NcuState
from workbench.measure.ncu.states import state_of, without_profile

SECONDS = 120.0
"""Deadline of one run: the gate protocol's for the sanitizer, which is as slow."""
_READ_SECONDS = 60.0
"""Deadline for printing the report."""
_GRACE = 40.0
"""Seconds beyond the deadline in which the reaper may end all processes."""
_FOR_EVER = 86_400.0
"""Deadline of the reaper when the program waits for us: then we watch the time."""
_POLL_SECONDS = 0.02
_UNKNOWN_METRIC = re.compile(r"[Ff]ailed to find metric[:\s]+(?:regex:)?([\w.]+)")
_LOG_BYTES = 1 << 20
_MESSAGES, _MESSAGE_CHARACTERS = 12, 300
"""Messages kept in a record, and characters of each."""


class Stop(Struct, frozen=True, kw_only=True):
    """A point at which the program waits until it is told to go on."""

    reached: Path
    """File that the program creates when it gets there."""
    go: Path
    """File that we create to let it go on."""


class NcuJob(Struct, frozen=True, kw_only=True):
    """What is profiled, and where the results go."""

    program: tuple[str, ...]
    """Command that calls the candidate between cuProfilerStart and cuProfilerStop."""
    environment: Mapping[str, str]
    """The program's whole environment; none of ours is inherited."""
    kernels: tuple[str, ...]
    """Names of the candidate's own kernels."""
    folder: Path
    """An existing private folder of this run, which the program cannot write to."""
    working: Path
    """Working directory of the program."""
    seconds: float = SECONDS
    """Deadline of the program, not counting the time for which it waits for us."""
    stops: tuple[Stop, ...] = ()
    """Where it waits for us, in order."""


Door = Callable[[], AbstractContextManager[object]]
"""A context in which the GPU is held, alone or shared; what it raises ends the run."""
Dropped = Callable[[], bool]
"""Whether nobody needs the record any more; asked repeatedly until the first stop."""


class _Hooks(NamedTuple):
    """The caller's `doors` and `dropped`; see `profile`."""

    doors: Sequence[Door]
    dropped: Dropped


def profile(
    job: NcuJob,
    *,
    ncu: Path | None = None,
    doors: Sequence[Door] = (nullcontext,),
    dropped: Dropped = lambda: False,
) -> NcuRecord:
    """Profile a program. Never raises for what it or ncu does: the record says how it ended.

    `ncu` is the program to use, by default the installed one. There is one of the `doors` for each
    stop: it is entered when the program reaches the stop and left at the next one, or when the
    program ends. A program without stops runs inside the only door. The record's `seconds` are
    those spent inside doors. If `dropped` becomes true before the first stop, the run is abandoned.
    The `.ncu-rep` stays in the job's folder as `report.ncu-rep`, and the record names its path.
    """
    program = ncu or find_ncu()
    if program is None:
        return without_profile(NcuState.MISSING, "")
    hooks = _Hooks(doors, dropped)
    record, unknown = _attempt(job, program, (), hooks)
    if unknown:
        seconds = record.seconds
        record, _ = _attempt(job, program, unknown, hooks)
        record = structs.replace(record, without=unknown, seconds=seconds + record.seconds)
    return record


def keep_report(record: NcuRecord, place: Path, shown: str) -> NcuRecord:
    """Move the report to `place`; if that fails, the record says so and nothing is raised.

    `shown` is the path for the record: relative to the session, which may be moved.
    """
    if not record.report:
        return record
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(record.report, place)
        return structs.replace(record, report=shown, report_bytes=place.stat().st_size)
    except OSError as fault:
        says = f"{record.says}; its report was not kept: {fault.strerror or fault}"
        return structs.replace(record, report="", report_bytes=0, says=says)


def _attempt(
    job: NcuJob, ncu: Path, without: tuple[str, ...], hooks: _Hooks
) -> tuple[NcuRecord, tuple[str, ...]]:
    """The record of one run, and the unknown metrics that made it fail, if any did."""
    report, log = job.folder / "report.ncu-rep", job.folder / "ncu.log"
    for path in (report, log, *(path for stop in job.stops for path in (stop.reached, stop.go))):
        path.unlink(missing_ok=True)
    command = profile_command(
        ncu, job.program, kernels=job.kernels, report=report, log=log, without=without
    )
    version = version_of(ncu)
    try:
        with _started(command, job) as program:
            exit_code, seconds = _waited(program, job, hooks)
    except OSError as fault:
        return without_profile(NcuState.CRASHED, str(fault), version=version), ()
    record, unknown = _read(job, ncu, exit_code, without, version)
    return structs.replace(record, seconds=seconds), unknown


def _read(
    job: NcuJob, ncu: Path, exit_code: int, without: tuple[str, ...], version: str
) -> tuple[NcuRecord, tuple[str, ...]]:
    """The record from the files of a run that ended with this code, and unknown metrics.

    Needs no GPU.
    """
    report, log = job.folder / "report.ncu-rep", job.folder / "ncu.log"
    stderr = _tail(job.folder / "ncu.err")
    if exit_code == TIMED_OUT:
        says = f"stopped after {job.seconds:g} s"
        return without_profile(NcuState.TIMED_OUT, says, version=version), ()
    said = parse_raw(_tail(log) + "\n" + stderr)
    unknown = tuple(m.group(1) for text in said.errors() if (m := _UNKNOWN_METRIC.search(text)))
    if unknown and not without and not report.exists():
        return without_profile(NcuState.UNREADABLE, said.errors()[0], version=version), unknown
    printed = _read_back(ncu, report, job) if report.exists() else Printed()
    state = state_of(said.errors(), exit_code=exit_code, launches=len(printed.launches))
    if report.exists() and not printed.launches and state is NcuState.NO_KERNEL:
        state = NcuState.UNREADABLE
    if state is NcuState.PROFILED:
        record = _profiled(job, printed, report, version)
    else:
        record = without_profile(state, _first_error(said, stderr), version=version)
    kept = tuple(text[:_MESSAGE_CHARACTERS] for text in said.errors()[:_MESSAGES])
    return structs.replace(record, messages=kept), ()


def _profiled(job: NcuJob, printed: Printed, report: Path, version: str) -> NcuRecord:
    names = dict.fromkeys(launch.kernel for launch in printed.launches)
    unseen = [name for name in dict.fromkeys(job.kernels) if name not in names]
    says = f"{len(printed.launches)} launches of {', '.join(names)} profiled"
    if unseen:
        says += f"; not seen: {', '.join(unseen)}"
    return NcuRecord(
        state=NcuState.PROFILED,
        says=says,
        launches=printed.launches,
        version=version,
        cache_control=CACHE_CONTROL,
        clock_control=CLOCK_CONTROL,
        report=str(report),
        report_bytes=report.stat().st_size,
    )


@contextmanager
def _started(command: Sequence[str], job: NcuJob) -> Iterator["subprocess.Popen[bytes]"]:
    """Run `command` under the reaper, discarding its output; nothing of it outlives the body."""
    seconds = _FOR_EVER if job.stops else job.seconds
    words = [sys.executable, "-m", "workbench.measure.ncu.reaper", str(seconds), *command]
    # When we die, the pipe to its stdin closes, and the reaper ends everything.
    with (job.folder / "ncu.err").open("w+b") as err:
        ran = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=err,
            env=dict(job.environment),
            cwd=job.working,
            start_new_session=True,
        )
        try:
            yield ran
        finally:
            if ran.stdin is not None:
                ran.stdin.close()
            try:
                ran.wait(_GRACE)
            except subprocess.TimeoutExpired:
                ran.kill()
                ran.wait()


def _waited(program: "subprocess.Popen[bytes]", job: NcuJob, hooks: _Hooks) -> tuple[int, float]:
    """The program's exit code, and for how many seconds the GPU was held."""
    held, ends = 0.0, [stop.reached for stop in job.stops[1:]]
    code: int | None = None
    most = job.seconds + _GRACE
    if job.stops:
        most = job.seconds
        code = _until(program, job.stops[0].reached, most, hooks.dropped)
    for place, door in enumerate(hooks.doors):
        if code is not None:
            break
        with door():
            began = time.monotonic()
            if job.stops:
                job.stops[place].go.touch()
            end = ends[place] if place < len(ends) else None
            # A program without stops is ended by its reaper before this deadline.
            code = _until(program, end, most, lambda: False)
            held += time.monotonic() - began
    return TIMED_OUT if code is None else code, held


def _until(
    program: "subprocess.Popen[bytes]", reached: Path | None, seconds: float, dropped: Dropped
) -> int | None:
    """Wait for the program's exit code; None if it creates the file `reached` first.

    TIMED_OUT after `seconds`, or when `dropped()` becomes true.
    """
    until = time.monotonic() + seconds
    while reached is None or not reached.exists():
        left = until - time.monotonic()
        if dropped() or left <= 0:
            return TIMED_OUT
        with contextlib.suppress(subprocess.TimeoutExpired):
            return program.wait(left if reached is None else _POLL_SECONDS)
    return None


def _read_back(ncu: Path, report: Path, job: NcuJob) -> Printed:
    """The launches in the report, printed by ncu alone: no candidate code runs."""
    environment = {"PATH": os.defpath, "LC_ALL": "C", "HOME": str(job.folder)}
    try:
        ran = subprocess.run(
            read_command(ncu, report),
            capture_output=True,
            check=False,
            timeout=_READ_SECONDS,
            env=environment,
            cwd=job.folder,
        )
    except (OSError, subprocess.TimeoutExpired):
        return Printed()
    return parse_raw(ran.stdout.decode("utf-8", "replace"))


def _tail(path: Path) -> str:
    """The end of a text file; empty when there is none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _LOG_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _first_error(said: Printed, stderr: str) -> str:
    errors = said.errors()
    if errors:
        return errors[0][:_MESSAGE_CHARACTERS]
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return lines[-1][:_MESSAGE_CHARACTERS] if lines else ""
