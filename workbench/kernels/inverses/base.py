"""What an inverse is: a mechanism found in a kernel, the text without it, and the way forward."""

from collections.abc import Callable

from msgspec import Struct

from workbench.kernels.edits.base import Edit, EditRefused, Parameters, places
from workbench.kernels.source import Source
from workbench.kernels.source_kernel import JitKernel


class Removable(Struct, frozen=True, kw_only=True):
    """One mechanism of one kernel, with what takes it out and what would put it back."""

    lines: tuple[int, ...]
    """Lines of the file that has it, in order."""
    locus: str
    """Where in the kernel, in words that do not depend on line numbers: `dot`, `BLOCK_M`."""
    says: str
    source: str
    """The text without it."""
    parameters: Parameters = {}
    """Parameters with which the forward edit restores what was there."""


class Inverse(Struct, frozen=True, kw_only=True):
    """Takes one mechanism out of a kernel. Semantic: sizes of one mechanism are not several."""

    category: str
    """The mechanism's name; transitions of one category are instances of one skill."""
    edit: str
    """Id of the edit that puts it back; it sees the text without it, not the reversed change."""
    says: str
    find: Callable[[Source, JitKernel], tuple[Removable, ...]]

    def removables(self, source: str, kernel: str) -> tuple[Removable, ...]:
        """Every place of that kernel where the mechanism can be taken out; often none or one."""
        return places(self.find, source, kernel)


def puts_back(edit: Edit, source: str, kernel: str, parameters: Parameters) -> bool:
    """Whether a forward edit accepts a text: what cannot be put back is not taken out."""
    try:
        edit.apply(source, kernel, parameters)
    except EditRefused:
        return False
    return True
