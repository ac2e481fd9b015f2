"""What `bench search` prints: costs and winners of each policy over many replays. Pure."""

import random
from collections.abc import Callable, Sequence
from math import log
from statistics import fmean, median

from msgspec import Struct, structs

from workbench.bench.search_desk import OPENING, Desk
from workbench.bench.search_policies import (
    Beaming,
    Climbing,
    Policy,
    a_run,
    everything,
    halving,
    one_rung,
)
from workbench.bench.search_records import Looked
from workbench.bench.search_stream import Candidate, Stream, opening, openings, streams
from workbench.measure.pairs import PairRule
from workbench.measure.records import Kind
from workbench.search.rungs import Ladder

SAVED, SAME = 0.80, 0.95
"""Goals of issue 7: GPU-seconds less than full fidelity, and the same winner."""
_FULL, _AGAIN, _LADDER = "full", "full again", "the ladder"
ENGINE = "a run"
"""What `run` does: candidates as they come, smoke where it pays."""
_BEAMS = (2, 4)
_RESAMPLED = 2000
_INTERVAL = 0.95
_AS_FAST = log(PairRule().threshold)


def _policies(stream: Stream) -> dict[str, Policy]:
    """The policies by name; some only where something was measured."""
    ladder = Ladder.load()
    found: dict[str, Policy] = {
        _FULL: everything,
        _AGAIN: everything,
        "one rung": one_rung,
        "halving": halving,
        _LADDER: Climbing(ladder),
    }
    if stream.kind is Kind.MODELED:
        return {**found, ENGINE: Climbing(ladder, ahead=1)}
    return {
        **found,
        "ladder without smoke": Climbing(ladder.without("smoke")),
        ENGINE: a_run(ladder),
        **{f"a beam of {width}": Beaming(ladder, width) for width in _BEAMS},
    }


class PolicyRow(Struct, frozen=True, kw_only=True):
    """One policy over all replays of one stream."""

    policy: str
    gpu_seconds: float
    wall_seconds: float
    """Mean wall seconds of a replay."""
    same: float
    """Share of replays that end with the kernel that full fidelity ends with there."""
    as_fast: float
    """Share that end with that, or with one less than 1 % slower over all samples."""
    parts: dict[str, float] = {}
    """The GPU-seconds by what they were for, in the mean."""

    def paid(self, *, opening: bool) -> float:
        """GPU-seconds, with or without the opening of workers."""
        return self.gpu_seconds - (0.0 if opening else self.parts.get(OPENING, 0.0))


class Row(Struct, frozen=True, kw_only=True):
    """One problem."""

    problem: str
    kind: Kind
    trusted: bool
    candidates: int
    refused: int
    confirmed: int
    """Candidates whose top rung was recorded; the others are priced by them."""
    runs: int
    policies: tuple[PolicyRow, ...]
    seed_seconds: float = 0.0
    """GPU-seconds of a seed's own verdict, priced as a look at the top rung without the sanitizer;
    no policy's cost has them."""
    opened: tuple[float, ...] = ()
    charged: tuple[float, ...] = ()
    """Seconds of opening workers, of looks that kept a time of it and of others
    (`search_stream.openings`)."""

    def of(self, policy: str) -> PolicyRow:
        """A policy's numbers. Raises KeyError for one that was not replayed."""
        for one in self.policies:
            if one.policy == policy:
                return one
        raise KeyError(policy)

    def cost(self, policy: str) -> float:
        """GPU-seconds; seconds where nothing was measured."""
        one = self.of(policy)
        return one.gpu_seconds if self.kind is Kind.MEASURED else one.wall_seconds


class Estimate(Struct, frozen=True, kw_only=True):
    """A share with the interval in which it lies when other problems of the kind are drawn."""

    share: float
    low: float
    high: float

    def says(self) -> str:
        """`83 % [71, 90]`."""
        share, low, high = (round(100 * one) for one in (self.share, self.low, self.high))
        return f"{share} % [{low}, {high}]"


class Told(Struct, frozen=True, kw_only=True):
    """One policy over all problems, against full fidelity."""

    policy: str
    gpu_seconds: float
    """Mean GPU-seconds of a replay, over all problems."""
    wall_seconds: float
    saved: Estimate
    """Share of the GPU-seconds saved; of the wall seconds where nothing was measured."""
    wall: Estimate
    """Share of the wall seconds saved."""
    same: Estimate
    """Replays that end with the same kernel."""
    as_fast: Estimate
    """With that, or one less than 1 % slower."""

    def cells(self) -> tuple[str, ...]:
        """Its row of the table."""
        return (
            self.policy,
            f"{self.gpu_seconds:.0f} s",
            self.saved.says(),
            f"{self.wall_seconds:.0f} s",
            self.wall.says(),
            self.same.says(),
            self.as_fast.says(),
        )


POLICIES = ("policy", "GPU-s", "saved", "wall", "saved", "same kernel", "as fast")


class Summary(Struct, frozen=True, kw_only=True):
    """All problems together."""

    saved: Estimate
    """Share saved by a run as it is."""
    same: Estimate
    policies: tuple[Told, ...]
    lines: tuple[str, ...]
    met: bool
    """Whether a run reaches both goals, by the shares themselves."""


def table(looked: Sequence[Looked], runs: int, seed: int = 0) -> list[Row]:
    """A row for each problem that can be replayed; the same recording gives the same rows.

    Each replay has an order of its own, the same for all policies, and measures again.
    """
    return [_row(stream, runs, seed) for stream in streams(looked)]


def _row(stream: Stream, runs: int, seed: int) -> Row:
    policies = _policies(stream)
    ends: dict[str, list[tuple[Candidate, Desk]]] = {name: [] for name in policies}
    for run in range(runs):
        order = list(stream.candidates)
        random.Random(f"{seed} {stream.problem} {run}").shuffle(order)  # noqa: S311 -- replays
        for name, policy in policies.items():
            drawn = random.Random(f"{seed} {stream.problem} {run} {name}")  # noqa: S311 -- replays
            desk = Desk(stream, drawn)
            ends[name].append((policy(desk, order), desk))
    full = [winner for winner, _ in ends[_FULL]]
    opened, charged = openings(stream)
    return Row(
        problem=stream.problem,
        kind=stream.kind,
        trusted=stream.trusted,
        candidates=len(stream.candidates),
        refused=sum(one.refused is not None for one in stream.candidates),
        confirmed=stream.confirmed,
        runs=runs,
        policies=tuple(_policy_row(name, found, full) for name, found in ends.items()),
        seed_seconds=Desk(stream, random.Random(seed)).a_seed(),  # noqa: S311 -- draws nothing
        opened=opened,
        charged=charged,
    )


def _policy_row(
    name: str, found: Sequence[tuple[Candidate, Desk]], full: Sequence[Candidate]
) -> PolicyRow:
    winners = [winner for winner, _ in found]
    desks = [desk for _, desk in found]
    parts = sorted({part for desk in desks for part in desk.gpu_seconds})
    return PolicyRow(
        policy=name,
        gpu_seconds=fmean(desk.cost.gpu_seconds for desk in desks),
        wall_seconds=fmean(desk.cost.wall_seconds for desk in desks),
        same=fmean(a.same_work(b) for a, b in zip(winners, full, strict=True)),
        as_fast=fmean(as_fast(a, b) for a, b in zip(winners, full, strict=True)),
        parts={part: fmean(desk.gpu_seconds.get(part, 0.0) for desk in desks) for part in parts},
    )


def as_fast(one: Candidate, other: Candidate) -> bool:
    """Whether a candidate is as fast as another: the same, or less than 1 % slower."""
    return one.same_work(other) or _speed(one) >= _speed(other) - _AS_FAST


def _speed(one: Candidate) -> float:
    """Log of its speedup over the seed, which has no pairs with itself."""
    return median(one.logs) if one.logs else 0.0


HEAD = ("problem", "cands", "full", "one rung", "halving", "ladder", "run", "saved", "same")


def cells(row: Row) -> tuple[str, ...]:
    """The row as the table prints it."""
    full, run = row.cost(_FULL), row.of(ENGINE)
    saved = 1 - row.cost(ENGINE) / full if full else 0.0
    shown = (_FULL, "one rung", "halving", _LADDER, ENGINE)
    return (
        row.problem,
        f"{row.candidates}",
        *(f"{row.cost(name):.1f} s" for name in shown),
        f"{100 * saved:.0f} %",
        f"{100 * run.same:.0f} %",
    )


def summary(rows: Sequence[Row], seed: int = 0) -> Summary:
    """Savings and winners over all problems; intervals by drawing problems with replacement.

    Raises ValueError without rows.
    """
    if not rows:
        raise ValueError("there are no rows to sum up")
    policies = tuple(_told(rows, one.policy, seed) for one in rows[0].policies)
    run = next(one for one in policies if one.policy == ENGINE)
    unit = "GPU-seconds" if rows[0].kind is Kind.MEASURED else "seconds (modeled, no GPU)"
    priced = sum(row.candidates - row.refused - row.confirmed for row in rows)
    elsewhere = [row.problem for row in rows if not row.confirmed]
    borrowed = f" (those of {', '.join(elsewhere)} by other problems')" if elsewhere else ""
    lines = [
        (
            f"saved: of the {unit}, and of the wall time, of everything at full fidelity; goals of"
            f" a run: {100 * SAVED:.0f} %, the same kernel in {100 * SAME:.0f} %"
        ),
        (
            f"{len(rows)} problems, {rows[0].runs} replays each, [ ] {100 * _INTERVAL:.0f} % over"
            f" problems; {priced} candidates were not looked at at the top rung and are priced by"
            f" those that were{borrowed}"
        ),
    ]
    lines += [*_where(rows), *_openings(rows), *_otherwise(rows), _replayed(rows), *_left_out(rows)]
    met = run.saved.share >= SAVED and run.same.share >= SAME
    return Summary(saved=run.saved, same=run.same, policies=policies, lines=tuple(lines), met=met)


def _replayed(rows: Sequence[Row]) -> str:
    """What a replay is, and what none of them has in it."""
    return (
        f"replayed, not run: in {rows[0].runs} orders every policy draws pairs and costs from the"
        " same looks at variants of the shipped seeds; what a run takes before its first"
        " candidate is not in it, nor is a second machine"
    )


def _otherwise(rows: Sequence[Row]) -> list[str]:
    """What a run saves when it is counted in other ways."""
    if rows[0].kind is not Kind.MEASURED:
        return []

    def share(of: Callable[[Row, str], float], against: str = _FULL) -> str:
        spent, whole = (sum(of(row, name) for row in rows) for name in (ENGINE, against))
        return f"{100 * (1 - spent / whole):.0f} %"

    rung = share(Row.cost, "one rung")
    exclusive = share(lambda row, name: row.of(name).paid(opening=False))
    whole = share(lambda row, name: row.cost(name) + row.seed_seconds)
    says = (
        f"a run saves {rung} against one rung for all; against full fidelity {exclusive} where"
        f" opening workers beside others is not counted, and {whole} where a seed's own"
        " verdict is counted on both sides"
    )
    return [says]


def _where(rows: Sequence[Row]) -> list[str]:
    """What a run's GPU-seconds are for, all problems together."""
    spent: dict[str, float] = {}
    for row in rows:
        for part, seconds in row.of(ENGINE).parts.items():
            spent[part] = spent.get(part, 0.0) + seconds
    whole = sum(spent.values())
    parts = sorted(spent.items(), key=lambda one: -one[1])
    words = ", ".join(
        f"{part} {seconds:.0f} s ({100 * seconds / whole:.0f} %)" for part, seconds in parts
    )
    return [f"a run's GPU-seconds: {words}"] if whole else []


def _openings(rows: Sequence[Row]) -> list[str]:
    """How much of the opening of workers was timed, where some of it was not."""
    opened = [seconds for row in rows for seconds in row.opened]
    charged = [seconds for row in rows for seconds in row.charged]
    if not charged:
        return []
    timed = f" ({median(opened):.2f} s in the middle)" if opened else ""
    says = (
        f"opening workers was timed in {len(opened)} of {len(opened) + len(charged)} looks{timed};"
        f" the others are charged all that their wall time leaves, {median(charged):.2f} s"
    )
    return [says]


def _left_out(rows: Sequence[Row]) -> list[str]:
    """What a run saves when any one problem is left out."""
    if len(rows) < 2:
        return []
    without = {}
    for row in rows:
        others = [one for one in rows if one is not row]
        without[row.problem] = 1 - _total(others, ENGINE) / _total(others, _FULL)
    least, most = (pick(without, key=without.__getitem__) for pick in (min, max))
    says = f"{100 * without[least]:.0f} % (without {least}) to {100 * without[most]:.0f} %"
    return [f"a run with one problem left out saves {says} (without {most})"]


def _told(rows: Sequence[Row], name: str, seed: int) -> Told:
    def estimate(share: Callable[[Sequence[Row]], float]) -> Estimate:
        return _estimate(rows, share, seed)

    def of_all(share: Callable[[Sequence[Row]], float]) -> Estimate:
        found = estimate(share)
        return structs.replace(found, low=min(found.low, _unseen(len(rows))))

    return Told(
        policy=name,
        gpu_seconds=sum(row.of(name).gpu_seconds for row in rows),
        wall_seconds=_wall(rows, name),
        saved=estimate(lambda some: 1 - _total(some, name) / _total(some, _FULL)),
        wall=estimate(lambda some: 1 - _wall(some, name) / _wall(some, _FULL)),
        same=of_all(lambda some: fmean(row.of(name).same for row in some)),
        as_fast=of_all(lambda some: fmean(row.of(name).as_fast for row in some)),
    )


def costs(looked: Sequence[Looked]) -> str:
    """What one look cost at each rung, in the middle of those that found nothing."""
    words = []
    for rung in dict.fromkeys(one.rung for one in looked):
        own = [one for one in looked if one.rung == rung and one.passed]
        if own:
            gpu = median(
                one.gpu_seconds + (0.0 if one.opening_seconds else opening(one)) for one in own
            )
            wall = median(one.wall_seconds for one in own)
            words.append(f"{rung} {gpu:.1f} GPU-s, {wall:.1f} s")
    return f"a look costs: {'; '.join(words)}"


def _total(rows: Sequence[Row], policy: str) -> float:
    return sum(row.cost(policy) for row in rows)


def _wall(rows: Sequence[Row], policy: str) -> float:
    return sum(row.of(policy).wall_seconds for row in rows)


def _unseen(problems: int) -> float:
    """The least share of problems that is not ruled out where all of so many did the same: drawing
    them again shows no spread, and proves none (Clopper and Pearson)."""
    return float(((1 - _INTERVAL) / 2) ** (1 / problems))


def _estimate(rows: Sequence[Row], share: Callable[[Sequence[Row]], float], seed: int) -> Estimate:
    """A share, and its percentile interval over problems drawn with replacement."""
    rng = random.Random(seed)  # noqa: S311 -- resampling
    drawn = sorted(share(rng.choices(rows, k=len(rows))) for _ in range(_RESAMPLED))
    tail = round(_RESAMPLED * (1 - _INTERVAL) / 2)
    return Estimate(share=share(rows), low=drawn[tail], high=drawn[-1 - tail])
