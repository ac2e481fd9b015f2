"""Tensor descriptors taken out of a kernel: addresses and masks in their place."""

from workbench.kernels.edits.descriptors import DESCRIPTORS
from workbench.kernels.edits.pointers import POINTERS
from workbench.kernels.inverses.base import Inverse, Removable, puts_back
from workbench.kernels.source import Source
from workbench.kernels.source_kernel import JitKernel


def _descriptors(source: Source, kernel: JitKernel) -> tuple[Removable, ...]:
    (anchor,) = POINTERS.find(source, kernel)
    without = POINTERS.apply(source.text, kernel.name, {}).source
    if not puts_back(DESCRIPTORS, without, kernel.name, {}):
        return ()
    return (Removable(lines=anchor.lines, locus="tiles", says=anchor.says, source=without),)


TENSOR_DESCRIPTORS = Inverse(
    category="tensor-descriptors",
    edit=DESCRIPTORS.id,
    says="blocks loaded by addresses and masks, where the TMA unit copied them",
    find=_descriptors,
)
