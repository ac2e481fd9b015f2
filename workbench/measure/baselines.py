"""What there is to beat: eager PyTorch and `torch.compile`, timed once a day for each GPU."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec import Struct

from workbench import paths
from workbench.measure.gpus import Gpu
from workbench.measure.keeping import keep, kept
from workbench.measure.records import Limit, Time
from workbench.problems.records import Problem

MODE = "max-autotune-no-cudagraphs"
"""Of `torch.compile`. CUDA graphs would take the launch path out, which the clock does anyhow."""
COMPILE_SECONDS = 120.0
"""Given to compiling and tuning: the slowest shipped problem took 54 s on an H200."""
_KEPT = timedelta(hours=24)
"""After which a GPU's and a driver's day may have changed (gate protocol, section 9.7)."""


class Outcome(StrEnum):
    """What became of one baseline."""

    MEASURED = "measured"
    LATE = "not compiled in time"
    WRONG = "wrong"
    """It was compiled, and its numbers are not the reference's: no bar."""
    FAILED = "failed"


class Baseline(Struct, frozen=True, kw_only=True):
    """The reference, run one way."""

    outcome: Outcome
    time: Time | None = None
    """Where it was measured."""
    says: str = ""
    """Why not, else how."""
    compile_seconds: float = 0.0

    def words(self) -> str:
        """`2861.6 us`, or why there is no time."""
        if self.time is not None:
            return f"{self.time.microseconds:.1f} us"
        return str(self.outcome)


class Baselines(Struct, frozen=True, kw_only=True):
    """Of one problem at one shape, under the precision flags of its reference."""

    problem: str
    shape: str
    gpu: str
    versions: dict[str, str]
    """`driver`, `torch`, `triton`: what the times hold for."""
    measured: str
    """UTC, ISO 8601."""
    eager: Baseline
    compiled: Baseline | None = None
    """None where nobody asked for it."""
    limit: Limit | None = None
    gpu_seconds: float = 0.0

    @property
    def best(self) -> Time | None:
        """The faster of those that were measured; what has to be beaten."""
        known = [one.time for one in (self.eager, self.compiled) if one and one.time]
        return min(known, key=lambda time: time.microseconds, default=None)

    @property
    def bar(self) -> str:
        """In few words: `eager 2861.6 us, compile 924.8 us`."""
        compiled = "" if self.compiled is None else f", compile {self.compiled.words()}"
        return f"eager {self.eager.words()}{compiled}"

    def words(self) -> str:
        """`eager 2861.6 us, torch.compile 924.8 us, measured 2026-11-29`."""
        compiled = "" if self.compiled is None else f", torch.compile {self.compiled.words()}"
        return f"eager {self.eager.words()}{compiled}, measured {self.measured[:10]}"

    def stale(self, now: datetime) -> bool:
        """Whether they are too old to be compared with; also where they are from the future."""
        age = now - datetime.fromisoformat(self.measured)
        return not timedelta(0) <= age <= _KEPT


def known_baselines(problem: Problem, gpu: Gpu, *, now: datetime | None = None) -> Baselines | None:
    """Those kept for this problem's full shape on this GPU, if they are not stale."""
    found = kept(_file(problem, gpu), Baselines)
    if found is None or found.stale(now or datetime.now(UTC)):
        return None
    return found


def keep_baselines(problem: Problem, gpu: Gpu, baselines: Baselines) -> None:
    """Keep them for a day."""
    keep(_file(problem, gpu), baselines)


def versions(gpu: Gpu) -> dict[str, str]:
    """What times of the reference hold for; read without importing torch."""
    from importlib import metadata

    found = {"driver": gpu.driver}
    for name in ("torch", "triton"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "missing"
    return found


def table(rows: Sequence[Baselines]) -> list[tuple[str, ...]]:
    """Problem, eager, compiled, best against limit, when: a header and a row for each."""
    head = ("problem", "eager", "torch.compile", "best of limit", "compiling", "measured")
    return [head, *(_row(one) for one in rows)]


def _row(one: Baselines) -> tuple[str, ...]:
    compiled, best = one.compiled, one.best
    share = "" if best is None or one.limit is None else f"{100 * one.limit.share(best):.3g} %"
    took = f"{compiled.compile_seconds:.1f} s" if compiled and compiled.compile_seconds else ""
    said = "not asked" if compiled is None else compiled.words()
    return one.problem, one.eager.words(), said, share, took, one.measured[:16].replace("T", " ")


def _file(problem: Problem, gpu: Gpu) -> Path:
    key = msgspec.json.encode(
        (
            problem.source,
            sorted(problem.full.values.items()),
            problem.precision,
            gpu.uuid,
            sorted(versions(gpu).items()),
        )
    )
    return paths.cache_home() / "baselines" / f"{hashlib.sha256(key).hexdigest()[:16]}.json"
