"""Mechanisms that a walk cannot remove, and experts that it refuses, with reasons for a person."""

import importlib.metadata
import re
from collections.abc import Iterator

from msgspec import Struct

from workbench.errors import WorkbenchError
from workbench.gate.records import GateReport, Stage, Verdict
from workbench.kernels.inverses.registry import INVERSES
from workbench.kernels.source import Source, read_source
from workbench.kernels.source_kernel import JitKernel

_MECHANISMS = {
    "inline_asm_elementwise": "inline assembly",
    "make_block_ptr": "block pointers",
    "make_tensor_descriptor": "descriptors made on the device",
    "associative_scan": "a scan by a function of its own",
    "cumsum": "a prefix sum",
    "cumprod": "a prefix product",
    "reduce": "a reduction by a function of its own",
    "map_elementwise": "a map by a function of its own",
    "histogram": "a histogram",
    "sort": "sorting on chip",
    "topk": "selecting on chip",
    "gather": "a gather on chip",
    "dot_scaled": "a product of scaled blocks",
    "atomic_add": "atomic updates",
    "atomic_cas": "atomic updates",
    "atomic_max": "atomic updates",
    "atomic_min": "atomic updates",
    "atomic_xchg": "atomic updates",
    "debug_barrier": "barriers",
    "exp2": "exponentials to the base 2",
}
"""Operations of triton.language that carry a mechanism, in a person's words."""

_REMEDIES = {
    "profile.loop-not-proven": "give the problem's smallest shape sizes at which the loops go "
    "round more than once, or "
}
"""What lets an undecided verdict be decided without another machine, by its code."""

_NO_NAME = (
    re.compile(r"module '(?P<module>triton[\w.]*)' has no attribute '(?P<name>\w+)'"),
    re.compile(r"cannot import name '(?P<name>\w+)' from '(?P<module>triton[\w.]*)'"),
    re.compile(r"No module named '(?P<module>triton)\.(?P<name>[\w.]+)'"),
    re.compile(r"(?P<module>\w+)\(\) got an unexpected keyword argument '(?P<name>\w+)'"),
    re.compile(r"(?P<module>Keyword) argument (?P<name>\w+) was specified but unrecognised"),
)
"""Python's message where this Triton lacks a name."""


class Uncovered(Struct, frozen=True, kw_only=True):
    """A mechanism of a kernel that no inverse removes."""

    says: str
    kernel: str
    lines: tuple[int, ...]

    def words(self) -> str:
        """`a prefix sum (top_k_kernel, line 47)`."""
        plural = "s" if len(self.lines) > 1 else ""
        places = ", ".join(map(str, self.lines))
        return f"{self.says} ({self.kernel}, line{plural} {places})"


def uncovered(source: str) -> tuple[Uncovered, ...]:
    """Mechanisms of a candidate's launched kernels that no inverse finds."""
    view = read_source(source)
    taken = {
        line
        for inverse in INVERSES
        for kernel in view.launched
        for found in inverse.removables(source, kernel)
        for line in found.lines
    }
    found = []
    for name in view.launched:
        kernel = view.kernel(name)
        if kernel is None:
            continue
        seen: dict[str, set[int]] = {}
        for says, line in _mechanisms(kernel):
            if line not in taken:
                seen.setdefault(says, set()).add(line)
        found += [
            Uncovered(says=says, kernel=name, lines=tuple(sorted(lines)))
            for says, lines in seen.items()
        ]
    return (*found, *_shared_out(view))


def _shared_out(view: Source) -> Iterator[Uncovered]:
    """Kernels after the first: each runs in parallel what one program could do in sequence."""
    for name in view.launched[1:]:
        lines = tuple(sorted(launch.line for launch in view.launches_of(name)))
        yield Uncovered(says="a launch of its own for a part of the work", kernel=name, lines=lines)


def _mechanisms(kernel: JitKernel) -> Iterator[tuple[str, int]]:
    for op, says in _MECHANISMS.items():
        for call in kernel.calls(op):
            yield says, call.lineno
    for loop in kernel.loops:
        if loop.kind == "while":
            yield "a loop whose length depends on data", loop.line


def failed_gate(report: GateReport, origin: str) -> WorkbenchError:
    """Why an expert that fails its gate cannot be learned from, and what would help."""
    missing = _missing(report)
    if missing:
        version = importlib.metadata.version("triton")
        return WorkbenchError(
            f"the expert needs another Triton: {missing} is not in {version}, which is here",
            where=f"{origin}{_line(report)}",
            todo="install the Triton that it was written for, or write it without that name; "
            "nothing was taken out yet",
        )
    todo = "mend it and see `workbench gate`"
    if report.verdict is Verdict.UNPROVEN:
        todo = f"nothing is wrong with it so far; {_REMEDIES.get(report.code, '')}have it judged "
        todo += "where that is possible"
        todo += " (a GPU runs what the interpreter cannot)" if report.device == "cpu" else ""
    return WorkbenchError(
        f"the expert is {report.verdict} at {report.stage}: {report.says} [{report.code}]",
        where=f"{origin}{_line(report)}",
        todo=f"{todo}: an expert must pass its own gate before anything is learned from it; "
        "nothing was taken out yet",
    )


def _missing(report: GateReport) -> str:
    """The name that this Triton lacks, as the expert writes it; empty for any other failure."""
    if report.stage is not Stage.COMPILE:
        return ""
    for pattern in _NO_NAME:
        found = pattern.search(report.says)
        if found is None:
            continue
        if found["module"] == "Keyword":
            return f"the launch option `{found['name']}`"
        if "keyword" in pattern.pattern:
            return f"the keyword `{found['name']}` of `{found['module']}`"
        return f"`{found['module']}.{found['name']}`"
    return ""


def _line(report: GateReport) -> str:
    lines = [f.line for stage in report.stages for f in stage.findings if f.code == report.code]
    return f", line {lines[0]}" if lines and lines[0] else ""


def nothing_to_remove(source: str, origin: str) -> WorkbenchError:
    """The fault for an expert in which no inverse finds anything, naming what none covers."""
    left = uncovered(source)
    words = f"it has {'; '.join(one.words() for one in left)}, which no inverse takes out; "
    return WorkbenchError(
        "nothing in the expert can be taken out",
        where=origin,
        todo=f"{words if left else ''}`--proposer both` asks a model for more; the walk itself "
        f"knows {', '.join(i.category for i in INVERSES)}",
    )
