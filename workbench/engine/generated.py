"""The generated code of a version: as its gate kept it, or compiled again on this machine."""

import tempfile
from pathlib import Path

from msgspec import Struct, structs

from workbench.errors import WorkbenchError
from workbench.gate.records import GateReport, Outcome
from workbench.kernels.records import KernelCode
from workbench.session.code import read
from workbench.session.reader import SessionReader
from workbench.session.records import Transition


class VersionCode(Struct, frozen=True, kw_only=True):
    """What is available of one version's generated code."""

    number: int
    kernels: tuple[KernelCode, ...] = ()
    """The kernels in the order of their first launches."""
    lacks: str = ""
    """Why some or all of it is missing; empty when it is complete."""
    again: bool = False
    """Whether compiling it again can supply what is missing."""
    made: str = ""
    """Where it was compiled again: with which tools, and how that compares with the record."""


def code_of(store: SessionReader, transition: Transition) -> VersionCode:
    """What the session has kept. Raises WorkbenchError when that cannot be read."""
    number, launches = transition.number, transition.gate.launches
    if not launches:
        says = f"v{number} was not compiled: its gate ended at {transition.gate.stage}"
        return VersionCode(number=number, lacks=says)
    names = list(dict.fromkeys(launch.code_sha256 for launch in launches))
    kept = read(store.git, names)
    kernels = tuple(kept[name] for name in names if name in kept)
    if len(kernels) == len(names):
        return VersionCode(number=number, kernels=kernels)
    says = f"v{number} is from before generated code was kept"
    if "" not in names:
        says = f"the generated code of v{number} is not in this copy of the session"
    made_with = tools_said(transition.gate.toolchain)
    return VersionCode(
        number=number, kernels=kernels, lacks=f"{says}; its gate used {made_with}", again=True
    )


def compiled_again(store: SessionReader, transition: Transition) -> VersionCode:
    """Compile a version's source for the session's target, in a worker, without a GPU.

    Writes nothing to the session. Raises WorkbenchError when it does not compile here, or when the
    policy refuses it, in which case nothing of it is run.
    """
    from workbench.engine.workplace import SessionWorkplace
    from workbench.session.store import SessionStore

    number = transition.number
    settings = structs.replace(store.settings(), device="cpu", device_index=None)
    with tempfile.TemporaryDirectory(prefix="workbench-code-") as scratch:
        workplace = SessionWorkplace(
            SessionStore(store.folder),
            settings,
            None,
            lambda event: None,  # noqa: ARG005 -- nobody listens
            scratch=Path(scratch),
            may_resize=False,
        )
        try:
            compiled = workplace.compiled(store.source(number))
        finally:
            workplace.close()
    if compiled.report.outcome is not Outcome.PASSED:
        raise WorkbenchError(
            f"v{number} does not compile here: {compiled.report.says}",
            where=str(store.folder),
            todo="`workbench doctor` names the triton and ptxas that are here",
        )
    kernels = compiled.recorded.code
    made = f"v{number} was compiled now with {tools_said(compiled.recorded.toolchain)}"
    return VersionCode(
        number=number, kernels=kernels, made=f"{made}: {_against(kernels, transition.gate)}"
    )


def tools_said(toolchain: dict[str, str]) -> str:
    """`triton 3.9.0, ptxas 13.4.59`: what of a toolchain decides the generated code."""
    named = [f"{name} {toolchain[name]}" for name in ("triton", "ptxas") if toolchain.get(name)]
    return ", ".join(named) or "tools that it does not name"


def _against(kernels: tuple[KernelCode, ...], gate: GateReport) -> str:
    """How code that was compiled again compares with what was gated."""
    gated = {launch.code_sha256 for launch in gate.launches}
    if "" in gated:
        return (
            f"its gate used {tools_said(gate.toolchain)}, and whether this is the same is unknown"
        )
    if {code.code_sha256 for code in kernels} == gated:
        return "the same machine code as was gated"
    return f"not the machine code that was gated, with {tools_said(gate.toolchain)}"
