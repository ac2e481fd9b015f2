"""Records of compute-sanitizer's reports on a program."""

from enum import StrEnum

from msgspec import Struct


class Tool(StrEnum):
    """The checks that are run, in this order."""

    MEMCHECK = "memcheck"
    """Loads and stores outside of every allocation, and misaligned ones."""
    INITCHECK = "initcheck"
    """Loads of global memory that nothing has written."""
    RACECHECK = "racecheck"
    """Hazards in shared memory; it does not see global memory."""


class Space(StrEnum):
    """Where an address lies."""

    GLOBAL = "global"
    SHARED = "shared"
    LOCAL = "local"


class Place(Struct, frozen=True):
    """An instruction, as far as the tool could name it."""

    kernel: str
    """Name of the kernel without its signature; empty if the tool names none."""
    file: str = ""
    line: int | None = None


class Report(Struct, frozen=True, kw_only=True):
    """One error that a tool reported; equal ones are counted, not repeated."""

    tool: Tool
    place: Place
    access: str
    """`read`, `write`, `atomic`; for a race `write and read`; `?` where the tool cannot tell."""
    space: Space
    detail: str = ""
    """`is out of bounds`, `is misaligned`, the severity of a race."""
    address: str = ""
    bytes: int | None = None
    """Bytes of one access."""
    times: int = 1


class Said(Struct, frozen=True, kw_only=True):
    """What one run printed, parsed."""

    reports: tuple[Report, ...] = ()
    errors: int | None = None
    """Errors in the tool's summary; None if it printed none, as nothing was then checked."""
    faults: tuple[str, ...] = ()
    """What the tool reported of its own failures."""


class ToolRun(Struct, frozen=True, kw_only=True):
    """One tool over one program."""

    tool: Tool
    reports: tuple[Report, ...] = ()
    unchecked: str = ""
    """Why the run proves nothing; empty when it does."""
    needs: str = ""
    """What a person can do about that."""
    seconds: float = 0.0
    isolation: str = ""
    """The isolation in force when the candidate was imported."""
