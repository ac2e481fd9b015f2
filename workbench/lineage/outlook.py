"""What lies ahead of a walk: its mechanisms, and how many verdicts they will take."""

from msgspec import Struct

from workbench.kernels.edits.base import EditRefused
from workbench.kernels.edits.registry import EDITS
from workbench.kernels.inverses.registry import Inverse, Removable
from workbench.kernels.source import normalized_sha256
from workbench.lineage.removals import removable

_MOST = 60
"""Mechanisms after which counting stops; ours."""


class Outlook(Struct, frozen=True, kw_only=True):
    """A walk in which every removal succeeds."""

    mechanisms: int
    verdicts: int
    """Kernels to judge: one without each mechanism, and one with it restored where its text differs
    from the original."""

    def gpu_seconds(self, a_verdict: float) -> float:
        """The cost at that many GPU-seconds per verdict."""
        return self.verdicts * a_verdict


def outlook(source: str) -> Outlook:
    """The walk of an expert, from its text alone."""
    tried: set[tuple[str, str, str]] = set()
    mechanisms = verdicts = 0
    while len(tried) < _MOST and (found := _untried(source, tried)) is not None:
        inverse, kernel, removed = found
        tried.add((inverse.category, kernel, removed.locus))
        verdicts += 1
        try:
            back = EDITS[inverse.edit].apply(removed.source, kernel, removed.parameters).source
        except EditRefused:
            continue
        mechanisms += 1
        verdicts += normalized_sha256(back) != normalized_sha256(source)
        source = removed.source
    return Outlook(mechanisms=mechanisms, verdicts=verdicts)


def _untried(
    source: str, tried: set[tuple[str, str, str]]
) -> tuple[Inverse, str, Removable] | None:
    for inverse, kernel, found in removable(source):
        if (inverse.category, kernel, found.locus) not in tried:
            return inverse, kernel, found
    return None
