"""The thresholds that name a bottleneck, each with the paper or guide that it comes from.

A rule holds when all of its tests do. The first rule that holds names the class; the others are
reported beside it. Where ncu measured nothing, rules on traced, modeled and compiled facts are
used instead, and every evidence line names its kind.
"""

import operator
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from workbench.kernels.records import Fact
from workbench.measure.bottleneck import Bottleneck, BottleneckClass, EvidenceLine, Headroom
from workbench.measure.records import Kind

_SKILL = "KernelSkill"
"""The decision table of the KernelSkill paper's published code: predicates and tiers."""
_GUIDE = "Nsight Compute's guide"
_OURS = "ours"

_OPERATIONS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
}


class Threshold(Struct, frozen=True):
    """A test that compares one fact with a bound: `fact operation bound`."""

    fact: str
    operation: str
    bound: float
    source: str
    kind: Kind = Kind.MEASURED


class Rule(Struct, frozen=True):
    """Tests that together indicate a class."""

    limit: BottleneckClass
    tests: tuple[Threshold, ...]
    limiter: str = ""
    """Name of the fact that says what causes it: the occupancy limiter, or the stall."""


_BUSY = Threshold("profile.limiter_pct", ">=", 60, f"{_SKILL}, below tier H")
_IDLE = Threshold("profile.limiter_pct", "<", 60, f"{_SKILL}, tier H")

MEASURED: tuple[Rule, ...] = (
    # Waste comes before the resource that it wastes: mending it is what helps.
    Rule(
        BottleneckClass.UNCOALESCED,
        (
            Threshold("profile.load_sector_use", "<", 0.5, f"{_OURS}: half of every sector unused"),
            _BUSY,
        ),
    ),
    Rule(
        BottleneckClass.UNCOALESCED,
        (
            Threshold(
                "profile.store_sector_use", "<", 0.5, f"{_OURS}: half of every sector unused"
            ),
            _BUSY,
        ),
    ),
    Rule(BottleneckClass.DRAM, (Threshold("profile.dram_pct", ">=", 80, f"{_SKILL}, DRAM high"),)),
    Rule(BottleneckClass.L2, (Threshold("profile.l2_pct", ">=", 80, f"{_SKILL}, L2 high"),)),
    Rule(
        BottleneckClass.TENSOR, (Threshold("profile.tensor_pct", ">=", 70, f"{_SKILL}, SM high"),)
    ),
    Rule(
        BottleneckClass.SPECIAL, (Threshold("profile.special_pct", ">=", 70, f"{_SKILL}, SM high"),)
    ),
    Rule(
        BottleneckClass.BANK_CONFLICTS,
        (
            Threshold(
                "profile.bank_conflicts", ">=", 0.25, f"{_OURS}: a quarter of the wavefronts"
            ),
            Threshold("profile.l1_pct", ">=", 60, f"{_OURS}: shared memory is busy"),
        ),
    ),
    Rule(
        BottleneckClass.ARITHMETIC, (Threshold("profile.fma_pct", ">=", 70, f"{_SKILL}, SM high"),)
    ),
    Rule(
        BottleneckClass.ARITHMETIC, (Threshold("profile.alu_pct", ">=", 70, f"{_SKILL}, SM high"),)
    ),
    Rule(BottleneckClass.L1, (Threshold("profile.l1_pct", ">=", 70, f"{_SKILL}, L1 high"),)),
    Rule(
        BottleneckClass.ARITHMETIC, (Threshold("profile.sm_pct", ">=", 70, f"{_SKILL}, SM high"),)
    ),
    Rule(
        BottleneckClass.DRAM,
        (Threshold("profile.dram_pct", ">=", 60, f"{_SKILL}, memory dominant"),),
    ),
    Rule(
        BottleneckClass.L2, (Threshold("profile.l2_pct", ">=", 60, f"{_SKILL}, memory dominant"),)
    ),
    Rule(
        BottleneckClass.LAUNCH,
        (Threshold("profile.duration_us", "<=", 10, f"{_SKILL}, duration tiny"), _IDLE),
    ),
    Rule(
        BottleneckClass.TAIL,
        (
            Threshold(
                "launch.tail", ">=", 0.25, f"{_OURS}: a quarter of all waves idle", Kind.EXACT
            ),
            _IDLE,
        ),
    ),
    Rule(
        BottleneckClass.SPILLS,
        (
            Threshold("static.spills", ">", 0, f"{_OURS}: any", Kind.EXACT),
            Threshold("profile.local_bytes", ">", 0, f"{_OURS}: any", Kind.MEASURED),
        ),
    ),
    Rule(
        BottleneckClass.OCCUPANCY,
        (
            Threshold("profile.occupancy_possible", "<=", 0.5, f"{_OURS}: half of the SM's warps"),
            Threshold("profile.eligible_warps", "<", 1, f"{_GUIDE}: an issue slot goes empty"),
            _IDLE,
        ),
        "profile.occupancy_limiter",
    ),
    Rule(
        BottleneckClass.LATENCY,
        (Threshold("profile.memory_stall_share", ">=", 0.3, f"{_SKILL}, memory dependency"), _IDLE),
        "profile.stall",
    ),
    Rule(BottleneckClass.LATENCY, (_IDLE,), "profile.stall"),
    Rule(
        BottleneckClass.DIVERGENCE,
        (Threshold("profile.divergent_pct", ">=", 5, f"{_SKILL}, divergence high"),),
    ),
)
"""In order of priority. That DRAM and L2 precede arithmetic is KernelSkill's; the rest is ours."""

_TRACED = Kind.MODELED
UNMEASURED: tuple[Rule, ...] = (
    Rule(
        BottleneckClass.UNCOALESCED,
        (
            Threshold(
                "trace.sector_efficiency",
                "<",
                0.5,
                f"{_OURS}: half of every sector unused",
                _TRACED,
            ),
        ),
    ),
    Rule(
        BottleneckClass.TAIL,
        (
            Threshold(
                "launch.tail", ">=", 0.25, f"{_OURS}: a quarter of all waves idle", Kind.EXACT
            ),
        ),
    ),
    Rule(
        BottleneckClass.SPILLS, (Threshold("static.spills", ">", 0, f"{_OURS}: any", Kind.EXACT),)
    ),
    Rule(
        BottleneckClass.OCCUPANCY,
        (
            Threshold(
                "static.occupancy", "<=", 0.25, f"{_OURS}: a quarter of the SM's warps", Kind.EXACT
            ),
        ),
        "static.limiter",
    ),
)
"""Rules that apply beside the largest part of the modeled time."""

PARTS: dict[str, BottleneckClass] = {
    "dram": BottleneckClass.DRAM,
    "l2": BottleneckClass.L2,
    "shared": BottleneckClass.L1,
    "tensor": BottleneckClass.TENSOR,
    "fp32": BottleneckClass.ARITHMETIC,
    "integer": BottleneckClass.ARITHMETIC,
    "special": BottleneckClass.SPECIAL,
    "latency": BottleneckClass.LATENCY,
    "atomics": BottleneckClass.LATENCY,
    "programs": BottleneckClass.LAUNCH,
    "launch": BottleneckClass.LAUNCH,
    "host": BottleneckClass.LAUNCH,
}
"""The class that each part of a modeled time (`measure.model`) indicates."""

_UNCOALESCED_FIRST = (BottleneckClass.UNCOALESCED,)


def classify(facts: Mapping[str, Fact]) -> Bottleneck:
    """The bottleneck of one kernel from its facts (`kernels.facts.read_facts`).

    Measured facts decide where there are any; otherwise traced, modeled and compiled facts do.
    Unknown facts decide nothing: when all are unknown, the answer is `BottleneckClass.UNKNOWN`.
    """
    if _number(facts, "profile.limiter_pct") is not None:
        return _measured(facts)
    return _unmeasured(facts)


def _measured(facts: Mapping[str, Fact]) -> Bottleneck:
    held = [(rule, lines) for rule in MEASURED if (lines := _held(rule, facts))]
    missing = _missing(facts, (test.fact for rule in MEASURED for test in rule.tests))
    headroom = _headroom(_number(facts, "profile.limiter_pct"))
    if not held:
        return Bottleneck(
            limit=BottleneckClass.UNKNOWN,
            says="measured, and no resource stands out",
            headroom=headroom,
            kind=Kind.MEASURED,
            missing=missing,
        )
    return _made(held, facts, headroom, Kind.MEASURED, missing)


def _unmeasured(facts: Mapping[str, Fact]) -> Bottleneck:
    """The class from the largest part of the modeled time, traces and the compiler's output."""
    share = _number(facts, "profile.efficiency")
    headroom = _headroom(None if share is None else 100 * share)
    missing = _missing(
        facts,
        ("profile.limiter_pct", "profile.bottleneck", "trace.sector_efficiency", "static.spills"),
    )
    held = [(rule, lines) for rule in UNMEASURED if (lines := _held(rule, facts))]
    modeled = _largest_part(facts)
    if modeled is not None:
        # A wasted sector explains a busy memory; spills and tails only accompany it.
        first = [h for h in held if h[0].limit in _UNCOALESCED_FIRST and _memory(modeled.limit)]
        rest = [h for h in held if h not in first]
        held = [*first, (Rule(modeled.limit, ()), [modeled]), *rest]
    if not held:
        return Bottleneck(
            limit=BottleneckClass.UNKNOWN,
            says="neither measured nor modeled",
            headroom=headroom,
            missing=missing,
        )
    return _made(held, facts, headroom, held[0][1][0].kind, missing)


def _memory(limit: BottleneckClass) -> bool:
    return limit in {BottleneckClass.DRAM, BottleneckClass.L2, BottleneckClass.LATENCY}


def _largest_part(facts: Mapping[str, Fact]) -> EvidenceLine | None:
    fact = facts.get("profile.bottleneck")
    if fact is None or not isinstance(fact.value, str) or fact.value not in PARTS:
        return None
    share = _number(facts, "profile.bottleneck_share")
    of = "" if share is None else f", {share:.0%} of all parts"
    return EvidenceLine(
        limit=PARTS[fact.value],
        fact=fact.name,
        value=fact.value,
        unit="",
        threshold=f"is the largest part of the modeled time{of}",
        source=_OURS,
        kind=Kind.MODELED,
    )


def _made(
    held: list[tuple[Rule, list[EvidenceLine]]],
    facts: Mapping[str, Fact],
    headroom: Headroom,
    kind: Kind,
    missing: tuple[str, ...],
) -> Bottleneck:
    first = held[0][0]
    limiter = facts[first.limiter].value if first.limiter in facts else None
    others = dict.fromkeys(rule.limit for rule, _ in held if rule.limit is not first.limit)
    ours = [line for rule, lines in held for line in lines if rule.limit is first.limit]
    rest = [line for rule, lines in held for line in lines if rule.limit is not first.limit]
    by = f" by {limiter}" if isinstance(limiter, str) else ""
    line = ours[0]
    value = f"{line.value:.3g}" if isinstance(line.value, float) else str(line.value)
    return Bottleneck(
        limit=first.limit,
        says=f"{first.limit}{by}, {kind}: {line.fact} {value}{line.unit} {line.threshold}",
        evidence=tuple(dict.fromkeys([*ours, *rest])),
        others=tuple(others),
        headroom=headroom,
        kind=kind,
        limiter=limiter if isinstance(limiter, str) else "",
        missing=missing,
    )


def _held(rule: Rule, facts: Mapping[str, Fact]) -> list[EvidenceLine]:
    """The rule's evidence when all its tests hold; empty when one fails or is unknown."""
    lines = []
    for test in rule.tests:
        value = _number(facts, test.fact)
        if value is None or not _OPERATIONS[test.operation](value, test.bound):
            return []
        lines.append(
            EvidenceLine(
                limit=rule.limit,
                fact=test.fact,
                value=value,
                unit=facts[test.fact].unit,
                threshold=f"{test.operation} {test.bound:g}",
                source=test.source,
                kind=test.kind,
            )
        )
    return lines


def _headroom(percent: float | None) -> Headroom:
    """Below 60 %: high, above 80 %: low (KernelSkill's tiers)."""
    if percent is None:
        return Headroom.UNKNOWN
    if percent < 60:
        return Headroom.HIGH
    return Headroom.MEDIUM if percent <= 80 else Headroom.LOW


def _number(facts: Mapping[str, Fact], name: str) -> float | None:
    fact = facts.get(name)
    if fact is None or isinstance(fact.value, bool) or not isinstance(fact.value, int | float):
        return None
    return float(fact.value)


def _missing(facts: Mapping[str, Fact], names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(n for n in names if n not in facts or facts[n].value is None))
