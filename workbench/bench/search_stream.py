"""The candidates of a recording, with what each said and cost at every rung. Pure."""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median

from msgspec import Struct, structs

from workbench.bench.search_records import BASE, Looked
from workbench.measure.records import Kind
from workbench.measure.trust import why_not_trusted
from workbench.search.ladder import shipped_ladder
from workbench.search.rungs import Ladder

RUNGS = [rung.name for rung in Ladder(shipped_ladder()).rungs]
_MODELED = len(Ladder(shipped_ladder()).without_gpu().rungs)


class Candidate(Struct, frozen=True, kw_only=True):
    """One candidate with what every rung said of it."""

    name: str
    technique: str
    looks: dict[str, Looked]
    logs: tuple[float, ...]
    """Logarithms of the seed's time over its own, pair by pair; empty if it was not timed."""
    us: float
    """Its time, in the middle: 0 where it was not timed."""
    setup_seconds: float
    """Seconds of a timing run before its first pair."""
    pair_seconds: float

    @property
    def refused(self) -> Looked | None:
        """The first rung that found something against it."""
        return next((self.looks[r] for r in RUNGS if r in self.looks and not self.passed(r)), None)

    @property
    def work(self) -> str:
        """Digest of what it launches; empty where it did not compile."""
        return next((look.work for look in self.looks.values()), "")

    def same_work(self, other: "Candidate") -> bool:
        """Whether it is the other, or makes a GPU do the same."""
        return self.name == other.name or bool(self.work and self.work == other.work)

    def passed(self, rung: str) -> bool:
        """Whether a rung that looked at it found nothing."""
        return self.looks[rung].passed


class Stream(Struct, frozen=True, kw_only=True):
    """The candidates of one problem, all of which any policy may evaluate."""

    problem: str
    kind: Kind
    trusted: bool
    """Whether modeled times may rank its kernels."""
    rungs: tuple[str, ...]
    base: Candidate
    candidates: tuple[Candidate, ...]
    confirmed: int
    """Candidates that were looked at at the top rung; the others cost there what those did."""
    elsewhere: tuple[Looked, ...] = ()
    """Looks at other problems of the recording: they price a rung that no candidate of this one
    came to, because the recording ended before."""


def streams(looked: Sequence[Looked]) -> list[Stream]:
    """A stream for each problem with a seed and two candidates that can be replayed."""
    found = []
    for problem in sorted({one.problem for one in looked}):
        own = [one for one in looked if one.problem == problem]
        others = [one for one in looked if one.problem != problem and _lends(one)]
        stream = _stream(own, others)
        if stream is not None:
            found.append(stream)
    return found


def _prices(one: Looked) -> bool:
    return one.passed and one.candidate != BASE


def _lends(one: Looked) -> bool:
    """Whether it may price another problem's look: only where its pairs, which are its own
    problem's, were told apart."""
    return _prices(one) and (one.pairs_seconds > 0 or not one.runs)


def _stream(looked: Sequence[Looked], elsewhere: Sequence[Looked]) -> Stream | None:
    measured = any(one.runs for one in looked)
    rungs = tuple(RUNGS if measured else RUNGS[:_MODELED])
    # The top rung costs much the same for all, so a few stand for the others there.
    needed = rungs[-2] if measured else rungs[-1]
    passed = {one.rung for one in looked if _prices(one)}
    known = passed | {one.rung for one in elsewhere}
    if needed not in passed or not known.issuperset(rungs):
        return None
    every = _priced([_candidate(own) for own in _by_candidate(looked)])
    base = next((one for one in every if one.name == BASE), None)
    usable = tuple(
        one
        for one in every
        if one.name != BASE and (one.refused is not None or needed in one.looks)
    )
    if base is None or len(usable) < 2:
        return None
    first = looked[0]
    return Stream(
        problem=first.problem,
        kind=Kind.MEASURED if measured else Kind.MODELED,
        trusted=not why_not_trusted(first.family, first.target),
        rungs=rungs,
        base=base,
        candidates=usable,
        confirmed=sum(rungs[-1] in one.looks for one in usable),
        elsewhere=tuple(elsewhere),
    )


def _by_candidate(looked: Sequence[Looked]) -> list[list[Looked]]:
    places = sorted({(one.place, one.candidate) for one in looked})
    ordered = sorted(looked, key=lambda one: RUNGS.index(one.rung))
    return [[one for one in ordered if one.candidate == name] for _, name in places]


def _candidate(own: Sequence[Looked]) -> Candidate:
    runs = [run for one in own for run in one.runs]
    logs = tuple(
        math.log(seed / us)
        for run in runs
        if "parent" in run.us
        for seed, us in zip(run.us["parent"], run.us["candidate"], strict=True)
    )
    setup, pair = _costs_of(own)
    return Candidate(
        name=own[0].candidate,
        technique=own[0].technique,
        looks={one.rung: one for one in own},
        logs=logs,
        us=median([us for run in runs for us in run.us["candidate"]]) if runs else 0.0,
        setup_seconds=setup,
        pair_seconds=pair,
    )


def _priced(every: Sequence[Candidate]) -> list[Candidate]:
    """Candidates whose setup cannot be told from their pairs have what the others have in the
    middle."""
    known = [one.setup_seconds for one in every if _tells_setup(one)]
    if not known:
        return list(every)
    return [one if _tells_setup(one) else _with_setup(one, median(known)) for one in every]


def _tells_setup(one: Candidate) -> bool:
    """Whether its looks told setup and pairs apart, or its runs have several lengths."""
    looks = one.looks.values()
    lengths = {len(run.us["candidate"]) for look in looks for run in look.runs}
    return bool(_told_apart(looks)) or len(lengths) > 1


def _told_apart(looks: Iterable[Looked]) -> list[Looked]:
    return [one for one in looks if one.pairs_seconds and len(one.runs) == 1]


def _with_setup(one: Candidate, setup: float) -> Candidate:
    """What its runs took less the setup is the pairs', none of which takes less than they say."""
    runs = [run for look in one.looks.values() for run in look.runs]
    if not runs:
        return one
    pairs = median([len(run.us["candidate"]) for run in runs])
    whole = median([run.gpu_seconds for run in runs])
    least = pairs * one.us * 2e-6
    setup = max(0.0, min(setup, whole - least))
    return structs.replace(one, setup_seconds=setup, pair_seconds=(whole - setup) / pairs)


def _costs_of(own: Sequence[Looked]) -> tuple[float, float]:
    """Seconds of a run before its first pair, and of each pair: as told apart by looks of one run,
    else from runs of different lengths."""
    if told := _told_apart(own):
        setup = median(in_runs(one) - one.pairs_seconds for one in told)
        pair = median(one.pairs_seconds / len(one.runs[0].us["candidate"]) for one in told)
        return max(0.0, setup), pair
    runs = [run for one in own for run in one.runs]
    return _run_costs([(len(run.us["candidate"]), run.gpu_seconds) for run in runs])


def _run_costs(runs: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """Seconds before the first pair, and of each, from runs of different lengths.

    The median slope between runs (Theil and Sen); with runs of one length all of it is the pairs'.
    """
    if not runs:
        return 0.0, 0.0
    ordered = sorted(runs)
    slopes = [(t2 - t1) / (n2 - n1) for (n1, t1), (n2, t2) in pairwise(ordered) if n2 > n1]
    slope = max(median(slopes), 0.0) if slopes else ordered[0][1] / max(ordered[0][0], 1)
    return max(0.0, median(t - n * slope for n, t in ordered)), slope


def opening(look: Looked) -> float:
    """GPU-seconds in which the workers of its runs were opened beside others; 0 where none was
    timed on a GPU."""
    if not look.runs:
        return 0.0
    return look.opening_seconds or max(0.0, look.wall_seconds - look.gpu_seconds)


def openings(stream: Stream) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Openings that looks kept a time of, and what others are charged: all that their wall time
    leaves, which is opening and more."""
    looks = [look for one in stream.candidates for look in one.looks.values() if look.runs]
    kept = tuple(opening(look) for look in looks if look.opening_seconds)
    return kept, tuple(opening(look) for look in looks if not look.opening_seconds)


def in_runs(look: Looked) -> float:
    """GPU-seconds of its timing runs."""
    return sum(run.gpu_seconds for run in look.runs)
