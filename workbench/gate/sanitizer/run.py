"""Runs compute-sanitizer over a program that calls a candidate: one run a tool, confined, timed.

The program (`gate.counters_job`) draws what the candidate needs, confines itself and only then
imports it, so that the tool's connection exists before hostile code does. The program's own output
is discarded: only the tool's is read, and it can only find errors, never clear them.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from workbench.gate.records import NO_CODE_RAN
from workbench.gate.sanitizer.parse import parse
from workbench.gate.sanitizer.records import Said, Tool, ToolRun
from workbench.gate.tool_program import ToolProgram
from workbench.measure.ncu.reaper import TIMED_OUT

SECONDS = 120.0
"""Deadline of one run (gate protocol, section 10)."""
_GRACE = 40.0
"""Beyond the deadline, until the reaper has ended all processes."""
_PRINTED = 100
"""Reports that a tool prints; further ones are only counted."""
_FOUND = 86
"""Exit code that we request from a tool that found errors; no program uses it."""
_LOG_BYTES = 4 << 20
_PLACES = (
    "usr/local/cuda/bin/compute-sanitizer",
    "usr/local/cuda*/bin/compute-sanitizer",
    "opt/nvidia/compute-sanitizer/compute-sanitizer",
)
INSTALL = "install compute-sanitizer (it comes with the CUDA toolkit) and put it on PATH"
_LARGER = "a smaller first [[shape]] in the problem's sidecar"


def find_sanitizer() -> Path | None:
    """The program on PATH, else where NVIDIA's installers put it; None when there is none."""
    found = shutil.which("compute-sanitizer")
    if found:
        return Path(found)
    there = (sorted(Path("/").glob(place)) for place in _PLACES)
    return next((paths[-1] for paths in there if paths), None)


def run_tool(
    tool: Tool, calling: ToolProgram, *, program: Path | None = None, seconds: float = SECONDS
) -> ToolRun:
    """Run one tool over a program. Never raises for what the program or the tool does.

    `program` is the compute-sanitizer to use; by default the installed one.
    """
    began = time.monotonic()
    found = program or find_sanitizer()
    if found is None:
        return ToolRun(tool=tool, unchecked="compute-sanitizer is not installed", needs=INSTALL)
    try:
        code = _run(command(found, tool, calling), calling, seconds)
    except OSError as fault:
        return ToolRun(tool=tool, unchecked=f"it does not start: {fault}", needs=INSTALL)
    text = _tail(calling.folder / "said")
    run = understood(tool, code, parse(text, tool), text, confined=calling.isolation())
    if code == TIMED_OUT:
        run = structs.replace(run, unchecked=f"no end within {seconds:g} s", needs=_LARGER)
    return structs.replace(run, seconds=time.monotonic() - began, isolation=calling.isolation())


def command(program: Path, tool: Tool, calling: ToolProgram) -> list[str]:
    """The words that run a tool over the program, its reports on standard output."""
    return [
        *(str(program), "--tool", tool, "--target-processes", "application-only"),
        *("--print-limit", str(_PRINTED), "--error-exitcode", str(_FOUND)),
        *("--show-backtrace", "no", *calling.command),
    ]


def understood(tool: Tool, code: int, said: Said, text: str, *, confined: str) -> ToolRun:
    """The result of a run. A clean one needs proof that the candidate ran and a tool's summary.

    A launcher without its libraries prints `0 errors` and runs nothing; a kernel that is launched
    in a process that the tool does not follow is not seen at all.
    """
    unchecked = ""
    if confined == NO_CODE_RAN:
        unchecked = "the candidate was not reached under it"
    elif said.errors is None:
        unchecked = "it printed no summary"
    elif not said.reports and code != 0:
        unchecked = f"the program left with {code} under it"
    if unchecked and said.reports:
        # Errors that it reported before it failed count all the same.
        return ToolRun(tool=tool, reports=said.reports)
    if unchecked:
        last = [re.sub(r"^=+ ?", "", line).strip() for line in text.splitlines() if line.strip()]
        why = said.faults[0] if said.faults else last[-1] if last else "it printed nothing"
        return ToolRun(tool=tool, unchecked=f"{unchecked}: {why[:300]}", needs=_DOCTOR)
    return ToolRun(tool=tool, reports=said.reports)


_DOCTOR = "run `compute-sanitizer --tool memcheck` on any CUDA program: does it work here at all?"


def _run(words: Sequence[str], calling: ToolProgram, seconds: float) -> int:
    """Exit code; both outputs go to a file that the program cannot open once it is confined."""
    reaper = [sys.executable, "-m", "workbench.measure.ncu.reaper", str(seconds), *words]
    # Without the caching allocator, so that the end of a tensor is the end of an allocation.
    environment = {**calling.environment, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    with (calling.folder / "said").open("wb") as said:
        # When this process dies the pipe closes, and the reaper ends everything.
        ran = subprocess.Popen(
            reaper,
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=calling.scratch,
            start_new_session=True,
        )
        try:
            return ran.wait(seconds + _GRACE)
        except subprocess.TimeoutExpired:
            return TIMED_OUT
        finally:
            ran.kill()
            if ran.stdin is not None:
                ran.stdin.close()
            ran.wait()


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _LOG_BYTES))
        return file.read().decode("utf-8", "replace")
