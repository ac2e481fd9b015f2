"""Edits that write one form of a computation for another, from the two texts they go between."""

from dataclasses import dataclass
from typing import Protocol

from workbench.kernels.edits.base import Anchor, Edit, EditParameter, EditRefused, Parameter
from workbench.kernels.edits.forms import find, rewrite
from workbench.kernels.edits.splice import Splice
from workbench.kernels.source import Source
from workbench.kernels.source_kernel import JitKernel


class Host(Protocol):
    """Changes the host code with the kernel."""

    def __call__(self, splice: Splice, kernel: JitKernel, *, forward: bool) -> None:
        """Towards the fast form, or back. Raises EditRefused where the host has neither."""


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
        splice = rewrite(source, kernel, self.fast, self.plain)
        if self.host is not None:
            self.host(splice, kernel, forward=False)
        hole = self.operands[0]
        parameters: dict[str, Parameter] = {}
        if hole:
            parameters["operands"] = splice.text(found.expressions[hole])
        return splice.result(), parameters

    def lines(self, kernel: JitKernel) -> tuple[int, ...]:
        """Lines of the fast form. Raises EditRefused where it is not there."""
        return tuple(s.lineno for s in find(kernel, self.fast).statements)

    def _find(self, source: Source, kernel: JitKernel) -> tuple[Anchor, ...]:
        lines = tuple(s.lineno for s in find(kernel, self.plain).statements)
        hole, default = self.operands
        self._change(source, kernel, {"operands": default} if hole else {})
        return (Anchor(lines=lines, says=f"the plain form from line {lines[0]} on"),)

    def _change(self, source: Source, kernel: JitKernel, parameters: dict[str, Parameter]) -> str:
        hole = self.operands[0]
        given = {hole: str(parameters["operands"])} if hole else {}
        if hole and not given[hole].replace(".", "").replace("_", "").isalnum():
            raise EditRefused(f"`{given[hole]}` is no name")
        splice = rewrite(source, kernel, self.plain, self.fast, given)
        if self.host is not None:
            self.host(splice, kernel, forward=True)
        return splice.result()
