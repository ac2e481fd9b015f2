"""A program that calls a candidate once, confined, under one of NVIDIA's tools."""

import sys
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from workbench.gate.counters_level import Level, installation, word
from workbench.gate.records import NO_CODE_RAN
from workbench.isolation.flavors import environment_of, setup_of
from workbench.isolation.records import Flavor, Layer
from workbench.isolation.sandbox import Confinement
from workbench.isolation.scratch import ScratchRoot, furnish
from workbench.problems.records import Constant, Precision

_JOB = "workbench.gate.counters_job"
_LAYERS = "layers.json"
STOPS = ("ready", "loaded")
"""Where the program waits: before the GPU and the candidate, and before the call that counts."""


class CallRequest(Struct, frozen=True, kw_only=True):
    """What `counters_job` is to call, and how it is to confine itself before."""

    candidate: str
    """Text of the candidate."""
    problem: str
    """Text of the problem, removed from the disk before the candidate is imported."""
    values: dict[str, Constant]
    precision: Precision
    seed: int
    """Seed of weights and inputs."""
    target: str
    device: str = "cpu"
    """`cuda:0`; `cpu` interprets, to rehearse without a GPU."""
    confinement: Confinement | None = None
    """None where the profiler does not work in a confined process."""
    stops: tuple[tuple[str, str], ...] = ()
    """Files to make and then to wait for: before the GPU is touched and anything of the candidate
    is read, and before the call that counts. None where nobody makes the others."""


class ToolProgram(Struct, frozen=True, kw_only=True):
    """A program that is ready to be started under a tool."""

    command: tuple[str, ...]
    """Its own command line, before which a tool puts its options."""
    environment: dict[str, str]
    """The complete environment."""
    folder: Path
    """Private to the judge: the program cannot write there once it is confined."""
    scratch: Path
    """The program's own, and its working directory."""

    def isolation(self) -> str:
        """The isolation in force when it imported the candidate; `NO_CODE_RAN` if it did not."""
        try:
            told = (self.folder / _LAYERS).read_bytes()
            return word(msgspec.json.decode(told, type=tuple[Layer, ...]))
        except (OSError, msgspec.DecodeError):
            return NO_CODE_RAN


def tool_program(
    root: ScratchRoot,
    asked: CallRequest,
    device_index: int | None,
    *,
    tool: Path | None = None,
    level: Level = Level.CONFINED,
    waits: bool = False,
) -> ToolProgram:
    """Prepare a run of `counters_job` without starting it.

    The request's device and confinement are filled in here. `tool` is the program that it will run
    under, whose installation it may read. With `waits` it makes a file in its scratch folder at
    each of its stops, and waits for a file in the judge's folder.
    """
    folder, scratch = root.folder("tool"), root.folder("called")
    on_gpu = device_index is not None
    setup = setup_of(
        Flavor.CUDA if on_gpu else Flavor.INTERPRET,
        on_gpu=on_gpu,
        preload=(),
        hidden=(),
        share_device_memory=False,
        namespaces=False,
    )
    message = structs.replace(
        asked,
        device=setup.device,
        confinement=_plan(setup.confinement, tool, level),
        stops=tuple((str(scratch / stop), str(folder / stop)) for stop in STOPS if waits),
    )
    request = scratch / "request.json"
    request.write_bytes(msgspec.json.encode(message))
    return ToolProgram(
        command=(sys.executable, "-m", _JOB, str(request), str(folder / _LAYERS)),
        environment={**environment_of(setup, device_index), **furnish(scratch), "LC_ALL": "C"},
        folder=folder,
        scratch=scratch,
    )


def _plan(plan: Confinement, tool: Path | None, level: Level) -> Confinement | None:
    if level is Level.BARE:
        return None
    if level is Level.CALLS:
        return structs.replace(plan, open_files="left off: the tool does not work under it here")
    return structs.replace(plan, roots=(*plan.roots, *(installation(tool) if tool else ())))
