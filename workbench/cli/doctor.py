"""`doctor`: whether this machine has what the workbench uses, and what to do where it has not."""

import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from msgspec import Struct

from workbench.cli import emit, options
from workbench.cli.say import Exit

if TYPE_CHECKING:
    from workbench.measure.gpus import Gpu


class Line(Struct, frozen=True, kw_only=True):
    """One thing that was looked at."""

    part: str
    state: Literal["ok", "absent", "bad"]
    """`absent` costs a feature; `bad` stops the main job."""
    found: str
    todo: str = ""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: workbench doctor --json")(doctor)


def doctor(
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure each GPU's bandwidth and matrix rates now.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Check Python, torch, triton, the GPU, Nsight, the sandbox, git and the terminal."""
    lines: list[Line] = []
    looks: tuple[Callable[[], list[Line]], ...] = (*_LOOKS, partial(_ceilings, measure=measure))
    for look in looks:
        for line in look():
            lines.append(line)
            if json:
                emit.json(line)
            else:
                emit.text(_show(line))
    if any(line.state == "bad" for line in lines):
        raise typer.Exit(Exit.NO)


def _show(line: Line) -> str:
    word = {"ok": "ok    ", "absent": "absent", "bad": "BAD   "}[line.state]
    todo = f"\n{'':44}to do: {line.todo}" if line.todo else ""
    return f"{line.part:<36}{word}  {line.found}{todo}"


def _python() -> list[Line]:
    found = f"{platform.python_version()} on {platform.machine()}"
    return [Line(part="python", state="ok", found=found)]


def _package(name: str, at_least: tuple[int, int]) -> Line:
    from importlib import metadata

    wanted = ".".join(map(str, at_least))
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Line(
            part=name,
            state="bad",
            found="not installed",
            todo=f"pip install '{name}>={wanted}'",
        )
    parts = version.split(".")
    found = (int(parts[0]), int("".join(c for c in parts[1] if c.isdigit()) or 0))
    if found < at_least:
        todo = f"pip install '{name}>={wanted}'"
        return Line(part=name, state="bad", found=version, todo=todo)
    return Line(part=name, state="ok", found=version)


def _packages() -> list[Line]:
    return [_package("torch", (2, 8)), _package("triton", (3, 6)), _package("textual", (8, 2))]


def _ptxas() -> list[Line]:
    from workbench.kernels.toolchain import tool_versions

    lines = []
    for name, found in tool_versions().items():
        if found:
            lines.append(Line(part=name, state="ok", found=found))
        else:
            todo = "reinstall triton: its wheel carries the program"
            lines.append(Line(part=name, state="bad", found="not found", todo=todo))
    return lines


def _gpu() -> list[Line]:
    from workbench.measure.gpus import NvmlFault, list_gpus

    try:
        gpus = list_gpus()
    except NvmlFault as fault:
        todo = "run nvidia-smi; until it answers, use --device cpu"
        return [Line(part="gpu", state="bad", found=f"the driver says: {fault}", todo=todo)]
    if not gpus:
        return [
            Line(
                part="gpu",
                state="absent",
                found="no NVIDIA GPU or driver: times are modeled, and say so",
            )
        ]
    found = [_one_gpu(index, gpu) for index, gpu in enumerate(gpus)]
    sick = [_taken_out(index, gpu.uuid) for index, gpu in enumerate(gpus)]
    return found + [line for line in sick if line is not None] + _several(len(gpus))


def _several(count: int) -> list[Line]:
    """How more than one GPU works for one run; nothing of a machine with one."""
    from workbench.cli.doctor_gpu import together

    if count < 2:
        return []
    found, todo = together()
    return [Line(part="several gpus", state="absent" if todo else "ok", found=found, todo=todo)]


def _one_gpu(index: int, gpu: "Gpu") -> Line:
    from workbench.cli.doctor_gpu import identity, standing, trouble

    todo = trouble(gpu)
    return Line(
        part=f"gpu cuda:{index}",
        state="absent" if todo else "ok",
        found=f"{identity(gpu)}; {standing(gpu)}",
        todo=todo,
    )


def _ceilings(*, measure: bool) -> list[Line]:
    """What each GPU was seen to reach; a driver that does not answer was reported already."""
    from workbench.cli.doctor_gpu import told
    from workbench.measure.gpus import NvmlFault, list_gpus

    lines = []
    try:
        gpus = list_gpus()
    except NvmlFault:
        return []
    if measure and not gpus:
        found = "nothing is measured: there is no GPU"
        todo = "run `workbench doctor --measure` where one is"
        return [Line(part="ceilings", state="absent", found=found, todo=todo)]
    for index, gpu in enumerate(gpus):
        found, todo = told(index, gpu, measure=measure)
        state: Literal["ok", "absent"] = "absent" if todo else "ok"
        lines.append(Line(part=f"ceilings cuda:{index}", state=state, found=found, todo=todo))
    return lines


def _taken_out(index: int, uuid: str) -> Line | None:
    from workbench.measure.gpuhealth import how_to_clear, sickness

    sick = sickness(uuid)
    if sick is None:
        return None
    found = f"taken out on {sick.since}: {sick.reason}"
    return Line(part=f"gpu cuda:{index}", state="bad", found=found, todo=how_to_clear(uuid))


def _ncu() -> list[Line]:
    program = shutil.which("ncu")
    if program is None:
        todo = "install Nsight Compute for hardware counters; static profiles need none"
        return [Line(part="ncu", state="absent", found="not on PATH", todo=todo)]
    version = _first_line([program, "--version"], containing="Version")
    lines = [Line(part="ncu", state="ok", found=version or program)]
    restricted = _counters_restricted()
    if restricted is not None:
        lines.append(restricted)
    return lines


def _sanitizer() -> list[Line]:
    from workbench.gate.sanitizer.run import INSTALL, find_sanitizer

    found = find_sanitizer()
    if found is None:
        what = "not found; only the top rung on a GPU uses it"
        return [Line(part="compute-sanitizer", state="absent", found=what, todo=INSTALL)]
    return [Line(part="compute-sanitizer", state="ok", found=str(found))]


def _counters_restricted() -> Line | None:
    """Whether the driver keeps counters for root; None where it does not say."""
    try:
        text = Path("/proc/driver/nvidia/params").read_text(encoding="utf-8")
    except OSError:
        return None
    if "RmProfilingAdminOnly: 1" in text and os.geteuid() != 0:
        return Line(
            part="ncu counters",
            state="absent",
            found="the driver keeps them for root (RmProfilingAdminOnly: 1)",
            todo="an administrator sets NVreg_RestrictProfilingToAdminUsers=0 and reloads nvidia",
        )
    return Line(part="ncu counters", state="ok", found="this user may read them")


def _first_line(command: list[str], containing: str = "") -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return next((ln.strip() for ln in done.stdout.splitlines() if containing in ln), "")


def _sandbox() -> list[Line]:
    from workbench.isolation.probe import probe

    return [
        Line(
            part=layer.name,
            state="ok" if layer.ok else "absent",
            found=layer.detail or "works",
        )
        for layer in probe()
    ]


def _git() -> list[Line]:
    program = shutil.which("git")
    if program is None:
        return [Line(part="git", state="bad", found="not on PATH", todo="install git")]
    return [Line(part="git", state="ok", found=_first_line([program, "--version"]))]


def _terminal() -> list[Line]:
    from workbench.tui.layout import refusal

    size = shutil.get_terminal_size()
    name = os.environ.get("TERM", "")
    colours = os.environ.get("COLORTERM", "") or "256 or fewer colours"
    found = f"{name or 'no TERM'}, {size.columns}x{size.lines}, {colours}"
    if not emit.on_terminal():
        return [Line(part="terminal", state="absent", found="output is not a terminal")]
    why = refusal((size.columns, size.lines), dict(os.environ))
    state: Literal["ok", "absent"] = "absent" if why else "ok"
    return [Line(part="terminal", state=state, found=why or found)]


_LOOKS: tuple[Callable[[], list[Line]], ...] = (
    _python,
    _packages,
    _ptxas,
    _gpu,
    _ncu,
    _sanitizer,
    _sandbox,
    _git,
    _terminal,
)
