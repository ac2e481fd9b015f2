"""What the inverses find in a kernel, in the order in which it is taken out."""

from collections.abc import Iterator

from workbench.kernels.inverses.registry import INVERSES, Inverse, Removable
from workbench.kernels.source import read_source


def removable(source: str) -> Iterator[tuple[Inverse, str, Removable]]:
    """Everything that can be taken out, dependents first; each with its kernel."""
    launched = read_source(source).launched
    for inverse in INVERSES:
        for kernel in launched:
            for found in inverse.removables(source, kernel):
                yield inverse, kernel, found
