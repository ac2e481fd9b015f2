"""Names for what an edit adds: free in the kernel, and spelled as the file spells its imports."""

from workbench.kernels.edits.base import EditRefused
from workbench.kernels.source import Source
from workbench.kernels.source_kernel import JitKernel


class FreeNames:
    """Names that a kernel does not use yet; each is given once."""

    def __init__(self, kernel: JitKernel) -> None:
        self._taken = set(kernel.flow.parameters) | set(kernel.flow.definitions)

    def take(self, stem: str) -> str:
        """The stem itself, or the stem with the first number that makes it free."""
        name, number = stem, 2
        while name in self._taken:
            name, number = f"{stem}{number}", number + 1
        self._taken.add(name)
        return name


def spelled(source: Source, name: str) -> str:
    """How the file writes `tl.where` or `triton.cdiv`. Raises EditRefused when it cannot."""
    found = source.names.spell(name)
    if found is None:
        package = "triton.language" if name.startswith("tl.") else name.partition(".")[0]
        raise EditRefused(f"the file does not import {package} by name")
    return found


def free_function(source: Source, name: str) -> str:
    """A name for a GPU function that the file does not have yet."""
    taken = {k.name for k in source.kernels}
    return name if name not in taken else f"{name}_{len(taken)}"
