"""How the full shape is checked without a GPU, and the result of such a check."""

from typing import Self

from msgspec import Struct

from workbench.gate.correctness.trial import MOST_CONFIGS
from workbench.gate.records import Evidence, Finding
from workbench.kernels.records import Build, Launch
from workbench.kernels.requests import Recorded, Traced


class FullLook(Struct, frozen=True, kw_only=True):
    """What a look at the full shape found."""

    findings: tuple[Finding, ...] = ()
    """Faults of the candidate, or doubts."""
    says: str = ""
    """How much was compared, for a person; empty where nothing had to be."""
    evidence: Evidence = {}
    traced: Traced | Finding | None = None
    """The trace, which need not be made again, or why there is none; None: nobody looked."""


class Setting(Struct, frozen=True, kw_only=True):
    """How the full shape is looked at."""

    target: str
    launches: tuple[Launch, ...]
    """Launches recorded at the full shape."""
    seed: bytes
    builds: tuple[Build, ...] = ()
    """What host code is told that compiles a kernel ahead of its launch."""

    @classmethod
    def of(cls, recorded: Recorded, target: str, seed: bytes) -> Self:
        """With what was recorded when the candidate was compiled at the full shape."""
        return cls(target=target, launches=recorded.launches, seed=seed, builds=recorded.builds)

    @property
    def configs(self) -> dict[str, int]:
        """Index of the recorded configuration of each autotuned kernel, by name."""
        return {launch.kernel: launch.config for launch in self.launches if launch.configs}

    def others(self) -> list[dict[str, int]]:
        """The other configurations, each of every kernel once; at most `MOST_CONFIGS` in all."""
        choices = {launch.kernel: len(launch.configs) for launch in self.launches}
        most = min(max(choices.values(), default=0), MOST_CONFIGS)
        return [
            {kernel: (at + turn) % choices[kernel] for kernel, at in self.configs.items()}
            for turn in range(1, most)
        ]
