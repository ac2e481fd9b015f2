"""What benchmarks of a fixed number of samples would have decided on the samples of `bench noise`.

Pure: the same samples always give the same rows.
"""

from collections.abc import Callable, Iterator, Sequence
from statistics import mean, median
from typing import TypeVar

from msgspec import Struct

from workbench.bench.noise_record import Stream
from workbench.measure.pairs import PairRule

_STEP = 25
"""Pairs between the starts of two windows."""

K = TypeVar("K")


class Scheme(Struct, frozen=True, kw_only=True):
    """A scheme with a fixed number of samples for each side, and how it reduces them to a time."""

    name: str
    samples: int
    reduce: Callable[[Sequence[float]], float]


class SchemeRow(Struct, frozen=True, kw_only=True):
    """What a fixed scheme decides on a planted gain."""

    name: str
    planted: float
    above_one: float
    """Share of its decisions that call the candidate faster at all."""
    above_threshold: float
    """Share that call it faster by more than the rule's threshold."""
    seconds: float
    """GPU-seconds for as many samples, median over the process pairs."""
    kernel: str = ""
    """Name of the kernel; empty for all kernels together."""


SCHEMES = (
    Scheme(name="mean of 100 (KernelBench)", samples=100, reduce=mean),
    Scheme(name="median of 100 (do_bench)", samples=100, reduce=median),
    Scheme(
        name="mean of 3 medians of 50 (10 + 50 x 3)",
        samples=150,
        reduce=lambda us: mean(median(us[i : i + 50]) for i in (0, 50, 100)),
    ),
)


def scheme_rows(streams: Sequence[Stream], rule: PairRule) -> Iterator[SchemeRow]:
    """Over all kernels, then each by itself: pooled, a process pair's own part looks like noise."""
    for scheme in SCHEMES:
        for planted in sorted({stream.planted for stream in streams}):
            planted_so = [stream for stream in streams if stream.planted == planted]
            by_kernel = grouped(planted_so, lambda stream: stream.kernel)
            for kernel, group in {"": planted_so, **by_kernel}.items():
                if (row := _scheme_row(scheme, group, rule, kernel)) is not None:
                    yield row


def _scheme_row(
    scheme: Scheme, streams: Sequence[Stream], rule: PairRule, kernel: str
) -> SchemeRow | None:
    ratios = [ratio for stream in streams for ratio in _ratios(stream, scheme)]
    if not ratios:
        return None
    return SchemeRow(
        name=scheme.name,
        kernel=kernel,
        planted=streams[0].planted,
        above_one=mean(ratio > 1 for ratio in ratios),
        above_threshold=mean(ratio > rule.threshold for ratio in ratios),
        seconds=median(s.seconds * scheme.samples / len(s.candidate_us) for s in streams),
    )


def _ratios(stream: Stream, scheme: Scheme) -> Iterator[float]:
    """One side's samples and then the other's, as these schemes take them; windows overlap."""
    n = scheme.samples
    for start in range(0, len(stream.candidate_us) - 2 * n + 1, _STEP):
        first, second = slice(start, start + n), slice(start + n, start + 2 * n)
        if start // _STEP % 2:
            first, second = second, first
        yield scheme.reduce(stream.incumbent_us[first]) / scheme.reduce(stream.candidate_us[second])


def grouped(streams: Sequence[Stream], key: Callable[[Stream], K]) -> dict[K, list[Stream]]:
    """The streams by key, each group in their order."""
    groups: dict[K, list[Stream]] = {}
    for stream in streams:
        groups.setdefault(key(stream), []).append(stream)
    return groups
