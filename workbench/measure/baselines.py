"""What there is to beat: eager PyTorch and `torch.compile`, timed once a day for each GPU."""

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec import Struct

from workbench import paths
from workbench.measure.cache import read_cached, write_cached
from workbench.measure.gpus import Gpu
from workbench.measure.records import Limit, Time
from workbench.problems.records import Problem

MODE = "max-autotune-no-cudagraphs"
"""The mode of `torch.compile`. CUDA graphs only remove launch overhead, and we time the device."""
COMPILE_SECONDS = 120.0
"""Limit for compiling and tuning: the slowest shipped problem took 54 s on an H200."""
_KEPT = timedelta(hours=24)
"""How long baselines stay valid (gate protocol, section 9.7)."""


class Outcome(StrEnum):
    """How the attempt to time one baseline ended."""

    MEASURED = "measured"
    LATE = "not compiled in time"
    WRONG = "wrong"
    """It compiled, but its output differs from the reference's, so its time sets no bar."""
    FAILED = "failed"


class Baseline(Struct, frozen=True, kw_only=True):
    """The time of the reference under one executor: eager or `torch.compile`."""

    outcome: Outcome
    time: Time | None = None
    """Set only when `outcome` is MEASURED."""
    says: str = ""
    """How it was timed, or why it could not be."""
    compile_seconds: float = 0.0

    def words(self) -> str:
        """The time as `2861.6 us`, or the outcome when there is none."""
        if self.time is not None:
            return f"{self.time.microseconds:.1f} us"
        return str(self.outcome)


class Baselines(Struct, frozen=True, kw_only=True):
    """Baselines of one problem at one shape, under the precision flags of its reference."""

    problem: str
    shape: str
    gpu: str
    versions: dict[str, str]
    """Versions of `driver`, `torch` and `triton` for which the times hold."""
    measured: str
    """UTC, ISO 8601."""
    eager: Baseline
    compiled: Baseline | None = None
    """None when only eager was asked for."""
    limit: Limit | None = None
    gpu_seconds: float = 0.0

    @property
    def best(self) -> Time | None:
        """The faster measured baseline, which a candidate has to beat; None when there is none."""
        known = [one.time for one in (self.eager, self.compiled) if one and one.time]
        return min(known, key=lambda time: time.microseconds, default=None)

    @property
    def bar(self) -> str:
        """Short form: `eager 2861.6 us, compile 924.8 us`."""
        compiled = "" if self.compiled is None else f", compile {self.compiled.words()}"
        return f"eager {self.eager.words()}{compiled}"

    def words(self) -> str:
        """Long form: `eager 2861.6 us, torch.compile 924.8 us, measured 2026-11-29`."""
        compiled = "" if self.compiled is None else f", torch.compile {self.compiled.words()}"
        return f"eager {self.eager.words()}{compiled}, measured {self.measured[:10]}"

    def stale(self, now: datetime) -> bool:
        """Whether the times are older than a day, or dated in the future."""
        age = now - datetime.fromisoformat(self.measured)
        return not timedelta(0) <= age <= _KEPT


def known_baselines(problem: Problem, gpu: Gpu, *, now: datetime | None = None) -> Baselines | None:
    """The cached baselines of this problem's full shape on this GPU; None if stale or missing."""
    found = read_cached(_file(problem, gpu), Baselines)
    if found is None or found.stale(now or datetime.now(UTC)):
        return None
    return found


def keep_baselines(problem: Problem, gpu: Gpu, baselines: Baselines) -> None:
    """Cache the baselines of this problem's full shape on this GPU."""
    write_cached(_file(problem, gpu), baselines)


def versions(gpu: Gpu) -> dict[str, str]:
    """Versions that times of the reference depend on; found without importing torch."""
    from importlib import metadata

    found = {"driver": gpu.driver}
    for name in ("torch", "triton"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "missing"
    return found


def table(rows: Sequence[Baselines]) -> list[tuple[str, ...]]:
    """Cells of a table: a header, then one row for each problem."""
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
