"""Decides which kind of step a kernel needs, from its facts alone, and keeps the whole trail.

Facts give structure, headroom and limit; predicates over them the bottleneck; the bottleneck's
cases the methods that may answer it. The rules are data (`policy.toml`); a rule that an unknown
fact leaves open is passed over, and the fact is named.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from workbench.kernels.records import Fact
from workbench.measure.bottleneck import Bottleneck, BottleneckClass, Headroom
from workbench.measure.bottleneck_rules import classify
from workbench.skills.conditions import Answer, Condition, check, evaluate
from workbench.skills.policy_table import Case, PolicyTable, Veto
from workbench.skills.records import Check, PolicyRecord, Truth


class Held(Struct, frozen=True):
    """A case that holds, and why."""

    case: Case
    because: str


class Ruling(Struct, frozen=True, kw_only=True):
    """What the policy says of one kernel."""

    record: PolicyRecord
    cases: tuple[Held, ...]
    """In the order in which their methods may be used; those of a signature first."""
    vetoes: tuple[Veto, ...]

    def place(self, methods: frozenset[str]) -> int:
        """How early a card of these methods may be used: by case, then the rest, then what is
        forbidden.
        """
        for place, held in enumerate(self.cases):
            if methods & set(held.case.allow):
                return place
        first = self.cases[0].case if self.cases else None
        return len(self.cases) + bool(first is not None and methods & set(first.forbid))

    def veto(self, methods: frozenset[str]) -> str:
        """Why a card of these methods is closed; empty when it is open.

        A veto closes a card only when it closes every method that the card belongs to.
        """
        closed = {name: veto for veto in self.vetoes for name in veto.forbid}
        if not methods or methods - set(closed):
            return ""
        first = closed[min(methods)]
        return f"{first.says} ({first.id})"

    def case_at(self, place: int) -> str:
        """The case of a place, in words."""
        if place < len(self.cases):
            return f"{self.cases[place].case.id}: {self.cases[place].case.says}"
        beyond = "forbidden by the first case" if place > len(self.cases) else "beyond all cases"
        return f"{beyond}, from coarse to fine"


def decide(facts: Mapping[str, Fact], table: PolicyTable) -> Ruling:
    """What the policy says of a kernel, from these facts alone. Never raises."""
    state = _State(facts, table)
    structure = state.structure()
    found = classify(facts)
    headroom = state.headroom(found)
    state.learn("limit", "" if found.limit is BottleneckClass.UNKNOWN else found.limit.value)
    predicates = tuple(state.predicates())
    bottlenecks = list(state.bottlenecks())
    default = table.file.default
    if not bottlenecks:
        state.defaults.append(default.bottleneck_says)
        bottlenecks = [(default.bottleneck, default.bottleneck_says, False)]
    held = tuple(state.cases([name for name, _, _ in bottlenecks]))
    if not held:
        state.defaults.append(default.case_says)
    vetoes = tuple(state.vetoes())
    first = held[0] if held else None
    bottleneck, because, signature = bottlenecks[0]
    record = PolicyRecord(
        structure=structure,
        headroom=headroom,
        limit=found.limit.value,
        limit_because=found.says,
        predicates=predicates,
        bottleneck=bottleneck,
        bottleneck_because=because,
        signature=signature,
        case=first.case.id if first else "",
        case_says=first.case.says if first else "",
        case_because=first.because if first else "",
        cases=tuple(h.case.id for h in held),
        size=first.case.size if first else "",
        allowed_methods=first.case.allow if first else (),
        forbidden_methods=_forbidden(first, vetoes),
        missing=tuple(dict.fromkeys((*state.missing, *found.missing))),
        defaults=tuple(state.defaults),
    )
    return Ruling(record=record, cases=held, vetoes=vetoes)


def _forbidden(first: Held | None, vetoes: Iterable[Veto]) -> tuple[str, ...]:
    """The methods that the first case or a veto forbids, each once."""
    by_case = first.case.forbid if first else ()
    by_vetoes = (name for veto in vetoes for name in veto.forbid)
    return tuple(dict.fromkeys((*by_case, *by_vetoes)))


class _State:
    """The facts, those that were missing, and what had to be assumed.

    Each method decides one section of the table. What it decides becomes a fact `policy.NAME`,
    which the conditions of later sections read, so that their order counts.
    """

    def __init__(self, facts: Mapping[str, Fact], table: PolicyTable) -> None:
        self._facts = dict(facts)
        self._table = table
        self.missing: list[str] = []
        self.defaults: list[str] = []

    def learn(self, name: str, value: bool | str | None) -> None:
        """Make a decision a fact for later conditions; empty or None is unknown."""
        full = f"policy.{name}"
        known = None if value == "" else value
        self._facts[full] = Fact(name=full, value=known, source="profile", says="by the policy")

    def _ask(self, condition: Condition) -> Answer:
        answer = evaluate(condition, self._facts)
        if answer.truth is Truth.UNKNOWN:
            unknown = (n for n in condition.facts if self._unknown(n))
            self.missing += [n for n in unknown if not n.startswith("policy.")]
        return answer

    def _unknown(self, name: str) -> bool:
        fact = self._facts.get(name)
        return fact is None or fact.value is None

    def structure(self) -> str:
        """`ID: WORDS` of the first rule that holds; empty where none does."""
        for rule in self._table.file.structure:
            if self._ask(self._table.when("structure", rule.id)).truth is Truth.YES:
                self.learn("structure", rule.id)
                return f"{rule.id}: {rule.says}"
        self.learn("structure", "")
        return ""

    def headroom(self, found: Bottleneck) -> str:
        """The tier of the headroom; the table's default, marked as assumed, if it is unknown."""
        if found.headroom is not Headroom.UNKNOWN:
            self.learn("headroom", found.headroom.value)
            return found.headroom.value
        default = self._table.file.default
        self.defaults.append(default.headroom_says)
        self.learn("headroom", default.headroom)
        return f"{default.headroom} (assumed)"

    def predicates(self) -> Iterator[Check]:
        """The rules that hold or are unknown, with what their conditions read."""
        for rule in self._table.file.predicate:
            condition = self._table.when("predicate", rule.id)
            truth = self._ask(condition).truth
            self.learn(rule.id, None if truth is Truth.UNKNOWN else truth is Truth.YES)
            if truth is not Truth.NO:
                yield check(f"{rule.id}: {rule.says}", condition, self._facts, rule.source)

    def bottlenecks(self) -> Iterator[tuple[str, str, bool]]:
        """(ID, why, whether a signature shows it) of every bottleneck whose condition holds."""
        for rule in self._table.file.bottleneck:
            answer = self._ask(self._table.when("bottleneck", rule.id))
            if answer.truth is Truth.YES:
                yield rule.id, f"{rule.says}: {answer.because}", rule.signature

    def cases(self, bottlenecks: Iterable[str]) -> Iterator[Held]:
        """The cases of these bottlenecks whose conditions hold, in the order of the table."""
        for name in bottlenecks:
            for case in self._table.file.case:
                if case.bottleneck != name:
                    continue
                answer = self._ask(self._table.when("case", case.id))
                if answer.truth is Truth.YES:
                    yield Held(case, answer.because)

    def vetoes(self) -> Iterator[Veto]:
        """The vetoes whose conditions hold."""
        for veto in self._table.file.veto:
            if self._ask(self._table.when("veto", veto.id)).truth is Truth.YES:
                yield veto


def told(record: PolicyRecord) -> tuple[str, ...]:
    """The record in a few lines for a person: card pane, `card`, `review`, `skills check`."""
    forced = " (told by the code)" if record.signature else ""
    lines = [
        f"structure {record.structure or 'unknown'}; headroom {record.headroom}",
        f"limit {record.limit}: {record.limit_because.removeprefix(f'{record.limit}, ')}",
        f"bottleneck {record.bottleneck}{forced}: {record.bottleneck_because}",
    ]
    if record.case:
        lines.append(
            f"case {record.case} ({record.size} gain): {record.case_says}"
            + ("" if record.case_because == "True -> yes" else f" [{record.case_because}]")
        )
        lines.append(f"allows {', '.join(record.allowed_methods)}")
    if record.forbidden_methods:
        lines.append(f"forbids {', '.join(record.forbidden_methods)}")
    if record.chosen_by and not record.chosen_by.startswith(f"{record.case}:"):
        lines.append(f"nothing that it allows counts for more; chosen by {record.chosen_by}")
    lines += [f"assumed: {text}" for text in record.defaults]
    if record.missing:
        lines.append(f"could not see {', '.join(record.missing)}")
    return tuple(lines)
