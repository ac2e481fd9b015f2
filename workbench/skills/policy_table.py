"""The decision policy as written down: structures, predicates, bottlenecks, cases, methods."""

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from workbench.errors import WorkbenchError
from workbench.kernels.edits.registry import EDITS
from workbench.kernels.facts_catalogue import CATALOGUE, FactSpec
from workbench.skills.conditions import Condition, ConditionFault, parse

PATH = Path(__file__).with_name("policy.toml")
Size = Literal["small", "medium", "large"]


class Rule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A named condition."""

    id: str
    says: str
    when: str
    source: str
    """Source of the threshold: a paper, or `ours`."""


class BottleneckRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a bottleneck is the one to work on."""

    id: str
    says: str
    when: str
    source: str
    signature: bool = False
    """Visible in the code itself, before any profile is read."""


class Method(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A kind of optimization, and how Triton does it."""

    id: str
    says: str
    edits: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    """A card that provides one of them belongs to this method."""
    cards: tuple[str, ...] = ()
    source: str


class Case(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row of the table: which methods a bottleneck allows and forbids under a condition."""

    id: str
    bottleneck: str
    says: str
    when: str = "True"
    allow: tuple[str, ...]
    forbid: tuple[str, ...] = ()
    size: Size
    """The gain that may be expected."""
    source: str


class Veto(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Forbids a method in every case."""

    id: str
    says: str
    when: str
    forbid: tuple[str, ...]
    source: str


class Level(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step from coarse to fine."""

    id: str
    below: int | None = None
    """Cards whose `order` is below it; None for all that are left."""
    coarse: bool = False
    """Whether its cards choose an algorithm or a decomposition, which others then tune."""


class Defaults(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is decided where no rule holds."""

    headroom: str
    headroom_says: str
    bottleneck: str
    bottleneck_says: str
    case_says: str
    gain: float
    gain_says: str


class Ranking(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Weights of the expected gain."""

    promise_weight: float
    other_place_weight: float
    modeled_weight: float
    refusal_factor: float
    large: float
    medium: float
    other_case: float
    """Factor on the gain of a card that only a later case allows; applied once per case."""
    beyond_cases: float
    forbidden: float
    draft: float
    warned: float


class Standing(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The standing from which a card may be chosen unasked."""

    shipped_draft: Literal["last", "asked"]
    """A shipped card without evidence: last in its level, or only when pinned."""
    own_from: Literal["admitted", "tried", "draft"]
    given_up: int
    """Problems on which a shipped draft was measured, and never kept, from which on it must be
    asked for."""
    """A person's own card, or a learned one."""


class PolicyFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`policy.toml`, decoded."""

    format: Literal[1]
    default: Defaults
    ranking: Ranking
    standing: Standing
    level: tuple[Level, ...]
    structure: tuple[Rule, ...]
    predicate: tuple[Rule, ...]
    bottleneck: tuple[BottleneckRule, ...]
    case: tuple[Case, ...]
    veto: tuple[Veto, ...] = ()
    method: tuple[Method, ...]


class PolicyTable(Struct, frozen=True, kw_only=True):
    """The file with every condition read; `conditions` has them by `kind.id`."""

    file: PolicyFile
    conditions: dict[str, Condition]

    def when(self, kind: str, rule_id: str) -> Condition:
        """The condition of a rule."""
        return self.conditions[f"{kind}.{rule_id}"]

    def methods_of(self, card: str, edit: str, provides: Iterable[str]) -> frozenset[str]:
        """Methods that a card belongs to, by its edit, a feature or its id."""
        features = set(provides)
        return frozenset(
            m.id
            for m in self.file.method
            if edit in m.edits or card in m.cards or features & set(m.features)
        )

    def level_of(self, order: int) -> int:
        """Place of a card's order from coarse (0) to fine."""
        for place, level in enumerate(self.file.level):
            if level.below is None or order < level.below:
                return place
        return len(self.file.level)

    def coarse(self, level: int) -> bool:
        """Whether a level chooses what others tune."""
        return level < len(self.file.level) and self.file.level[level].coarse


@cache
def shipped_policy() -> PolicyTable:
    """The policy in the package."""
    return parse_policy(PATH.read_text(encoding="utf-8"), PATH)


def parse_policy(text: str, path: Path) -> PolicyTable:
    """The policy in a text; `path` is only named in errors.

    Raises WorkbenchError with the rule, its value and what was expected: for what is not TOML, a
    wrong key, a fact, edit, method or bottleneck that does not exist, and a name given twice.
    """
    try:
        file = msgspec.convert(tomllib.loads(text), PolicyFile)
    except tomllib.TOMLDecodeError as fault:
        what = f"the policy is not TOML: {fault}"
        raise WorkbenchError(what, where=str(path), todo="mend that line") from fault
    except msgspec.ValidationError as fault:
        what = f"the policy cannot be used: {fault}"
        raise WorkbenchError(what, where=str(path), todo="mend that entry") from fault
    _check_names(file, path)
    return PolicyTable(file=file, conditions=_conditions(file, path))


def policy_facts(file: PolicyFile) -> dict[str, FactSpec]:
    """What the policy itself decides, as facts that its later conditions may name."""
    texts = (("structure", "S0 to S4"), ("limit", "what holds the kernel back"))
    specs = [FactSpec(f"policy.{n}", "text", "", "profile", says) for n, says in texts]
    specs.append(FactSpec("policy.headroom", "text", "", "profile", "high, medium or low"))
    specs += [FactSpec(f"policy.{p.id}", "flag", "", "profile", p.says) for p in file.predicate]
    return {spec.name: spec for spec in specs}


def _conditions(file: PolicyFile, path: Path) -> dict[str, Condition]:
    """Every condition, each over the facts that are decided before it."""
    decided = policy_facts(file)
    seen = {**CATALOGUE}
    found: dict[str, Condition] = {}
    for rule in file.structure:
        found[f"structure.{rule.id}"] = _read(rule.when, seen, f"structure {rule.id}", path)
    seen |= {n: decided[n] for n in ("policy.structure", "policy.limit", "policy.headroom")}
    for rule in file.predicate:
        found[f"predicate.{rule.id}"] = _read(rule.when, seen, f"predicate {rule.id}", path)
        seen[f"policy.{rule.id}"] = decided[f"policy.{rule.id}"]
    for kind, rules in (
        ("bottleneck", file.bottleneck),
        ("case", file.case),
        ("veto", file.veto),
    ):
        for later in rules:
            found[f"{kind}.{later.id}"] = _read(later.when, seen, f"{kind} {later.id}", path)
    return found


def _read(text: str, facts: Mapping[str, FactSpec], rule: str, path: Path) -> Condition:
    try:
        return parse(text, facts)
    except ConditionFault as fault:
        raise WorkbenchError(
            f"{rule}: `when` = {text!r}: {fault.what}", where=str(path), todo=fault.todo
        ) from fault


def _check_names(file: PolicyFile, path: Path) -> None:
    for kind in ("structure", "predicate", "bottleneck", "case", "veto", "method", "level"):
        names = [rule.id for rule in getattr(file, kind)]
        for name in names:
            if names.count(name) > 1:
                what = f"two rules of [[{kind}]] are named {name!r}"
                raise WorkbenchError(what, where=str(path), todo="give each its own id")
    methods = {m.id for m in file.method}
    bottlenecks = {b.id for b in file.bottleneck} | {file.default.bottleneck}
    for case in file.case:
        _known(case.bottleneck, bottlenecks, f"case {case.id}: `bottleneck`", path)
        for name in (*case.allow, *case.forbid):
            _known(name, methods, f"case {case.id}: method", path)
    for veto in file.veto:
        for name in veto.forbid:
            _known(name, methods, f"veto {veto.id}: method", path)
    for method in file.method:
        for name in method.edits:
            _known(name, EDITS, f"method {method.id}: edit", path)


def _known(name: str, known: Iterable[str], where: str, path: Path) -> None:
    names = list(known)
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1, cutoff=0.0)
        raise WorkbenchError(
            f"{where} {name!r} does not exist",
            where=str(path),
            todo=f"the nearest is {near[0]!r}" if near else "",
        )
