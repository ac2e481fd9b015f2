"""Edits that write one form of a computation for another, from the two texts they go between."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from workbench.kernels.edits.base import Anchor, Edit, EditParameter, EditRefused, Parameter
from workbench.kernels.edits.forms import Match, find, finds, rewrite
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import Source, read_source
from workbench.kernels.source_kernel import JitKernel


class Host(Protocol):
    """Changes the host code with the kernel."""

    def __call__(self, splice: Splice, kernel: JitKernel, *, forward: bool) -> None:
        """Towards the fast form, or back. Raises EditRefused where the host has neither."""


class Plainly(Protocol):
    """Finds what only the plain form names."""

    def __call__(self, splice: Splice, kernel: JitKernel, found: Match) -> dict[str, str]:
        """Texts of the plain form's own holes. Raises EditRefused where the kernel has none."""


@dataclass(frozen=True)
class Rewrite:
    """A plain form of a computation and a faster one."""

    edit: str
    says: str
    plain: str
    fast: str
    operands: tuple[str, str] = ("", "")
    """A hole that only the fast form has and its default: the edit's one parameter."""
    host: Host | None = None
    plainly: Plainly | None = None
    every: bool = False
    """Whether it is applied at all places together, as one mechanism."""

    def forward(self) -> Edit:
        """The edit from the plain form to the fast one."""
        hole, default = self.operands
        parameter = EditParameter(
            name="operands", says=f"what `{hole}` is", kind="text", default=default
        )
        return Edit(
            id=self.edit,
            says=self.says,
            parameters=(parameter,) if hole else (),
            find=self._find,
            change=self._change,
        )

    def backward(self, source: Source, kernel: JitKernel) -> tuple[str, dict[str, Parameter]]:
        """The text with the plain form, and the parameters of the way forward.

        Raises EditRefused where the fast form is not there.
        """
        found = find(kernel, self.fast)
        hole = self.operands[0]
        parameters: dict[str, Parameter] = {}
        if hole:
            parameters["operands"] = Splice(source).text(found.expressions[hole])
        without = self._everywhere(self._plainly(source, kernel), kernel.name, self._plainly)
        return without, parameters

    def _plainly(self, source: Source, kernel: JitKernel) -> str:
        """The text with the plain form at the first place of the fast one."""
        given: dict[str, str] = {}
        if self.plainly is not None:
            given = self.plainly(Splice(source), kernel, find(kernel, self.fast))
        splice = rewrite(source, kernel, self.fast, self.plain, given)
        if self.host is not None:
            self.host(splice, kernel, forward=False)
        return splice.result()

    def _everywhere(self, text: str, kernel: str, once: Callable[[Source, JitKernel], str]) -> str:
        """The same at the places after the first, where a form may stand at several."""
        while self.every:
            view = read_source(text)
            here = view.kernel(kernel)
            try:
                text = text if here is None else once(view, here)
            except EditRefused:
                break
        return text

    def lines(self, kernel: JitKernel) -> tuple[int, ...]:
        """Lines of the fast form. Raises EditRefused where it is missing."""
        found = list(finds(kernel, self.fast)) if self.every else []
        found = found or [find(kernel, self.fast)]
        return tuple(s.lineno for one in found for s in one.statements)

    def _find(self, source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
        lines = tuple(s.lineno for s in find(kernel, self.plain).statements)
        hole, default = self.operands
        self._change(source, kernel, {"operands": default} if hole else {})
        return (Anchor(lines=lines, says=f"the plain form from line {lines[0]} on"),)

    def _change(self, source: Source, kernel: JitKernel, parameters: dict[str, Parameter]) -> str:
        hole = self.operands[0]
        given = {hole: str(parameters["operands"])} if hole else {}
        if hole and not given[hole].replace(".", "").replace("_", "").isalnum():
            raise EditRefused(f"`{given[hole]}` is not a name")

        def once(source: Source, kernel: JitKernel) -> str:
            splice = rewrite(source, kernel, self.plain, self.fast, given)
            if self.host is not None:
                self.host(splice, kernel, forward=True)
            return splice.result()

        return self._everywhere(once(source, kernel), kernel.name, once)
