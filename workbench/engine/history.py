"""What a session's transitions mean for the next step: incumbent, best, and what was tried."""

from collections.abc import Iterable

from msgspec import Struct, structs

from workbench.errors import WorkbenchError
from workbench.gate.records import Verdict
from workbench.measure.records import Kind, Speed, Time
from workbench.session.moves import Move
from workbench.session.records import Answer, Cost, Transition
from workbench.session.spends import Spend


class History(Struct, frozen=True, kw_only=True):
    """The transitions of a session, in order of their numbers."""

    transitions: tuple[Transition, ...] = ()
    main: int | None = None
    """Where `main` is; None before the seed, and where it names no version of ours."""
    undone: frozenset[int] = frozenset()
    """Accepted versions that a person took back; among the transitions they are vetoed."""
    spends: tuple[Spend, ...] = ()
    """What was spent beside the transitions: last looks, and work that led to no version."""
    taken: int = -1
    """The highest number in use, also by versions that cannot be read."""
    unread: tuple[str, ...] = ()
    """Parts of the session that cannot be read, one sentence each."""

    def plus(self, transition: Transition) -> "History":
        """A history with one more, or one newly decided, transition; `main` moves to a kept one."""
        main = transition.number if _kept(transition) else self.main
        return structs.replace(self, transitions=self._with(transition), main=main)

    def spent(self, spend: Spend) -> "History":
        """A history with one more cost that is not a transition's."""
        return structs.replace(self, spends=(*self.spends, spend))

    @property
    def looks(self) -> tuple[Spend, ...]:
        """The last looks that gave an answer, oldest first."""
        answers = {Verdict.ACCEPTED, Verdict.REJECTED}
        return tuple(one for one in self.spends if one.verdict in answers)

    def looked_at(self, number: int) -> bool:
        """Whether a last look at a version came to an answer."""
        return any(one.version == number for one in self.looks)

    def moved(self, move: Move, restored: Iterable[Transition]) -> "History":
        """After a person moved `main`; `restored` are those that stand again, as git has them."""
        decision = move.decision()
        taken = [structs.replace(self.get(n), decision=decision) for n in move.undone]
        return structs.replace(
            self,
            transitions=self._with(*taken, *restored),
            main=move.to,
            undone=(self.undone | set(move.undone)) - set(move.restored),
        )

    def _with(self, *transitions: Transition) -> tuple[Transition, ...]:
        by_number = {t.number: t for t in (*self.transitions, *transitions)}
        return tuple(by_number[number] for number in sorted(by_number))

    def line(self, number: int) -> tuple[int, ...]:
        """The numbers that lead to a version, seed first. KeyError where one does not exist."""
        line = [number]
        while (parent := self.get(line[-1]).parent) is not None:
            line.append(parent)
        return tuple(reversed(line))

    def get(self, number: int) -> Transition:
        """The transition of that number; KeyError when there is none."""
        for transition in self.transitions:
            if transition.number == number:
                return transition
        raise KeyError(number)

    @property
    def kept(self) -> tuple[int, ...]:
        """Numbers of the accepted versions, ascending."""
        return tuple(t.number for t in self.transitions if _kept(t))

    @property
    def seed(self) -> Transition | None:
        """The accepted seed, or None before there is one."""
        return next((t for t in self.transitions if t.parent is None and _kept(t)), None)

    @property
    def incumbent(self) -> Transition | None:
        """The kernel the next step starts from: where `main` is, else the newest accepted."""
        if self.main is not None:
            return self.get(self.main)
        kept = [t for t in self.transitions if _kept(t)]
        return kept[-1] if kept else None

    def start(self) -> Transition:
        """The incumbent. Raises WorkbenchError where nothing has been accepted yet."""
        incumbent = self.incumbent
        if incumbent is None:
            raise WorkbenchError(
                "the session has no accepted kernel to start from",
                todo="start another session with `workbench run PROBLEM --kernel FILE`",
            )
        return incumbent

    @property
    def best(self) -> Transition | None:
        """The fastest accepted so far, by the time of one kind only.

        Times of two GPUs do not compare: there the pairs speak, by which each step of a line was
        faster than the one before it.
        """
        timed = [t for t in self.transitions if _kept(t) and t.gate.time is not None]
        if not timed:
            return self.incumbent
        kinds = {t.gate.time.kind for t in timed if t.gate.time is not None}
        kind = Kind.MEASURED if Kind.MEASURED in kinds else Kind.MODELED
        alike = [t for t in timed if t.gate.time is not None and t.gate.time.kind is kind]
        fastest = min(alike, key=_microseconds)
        if len({t.gate.gpu for t in alike}) == 1:
            return fastest
        after = [t for t in alike if fastest.number in self.line(t.number)]
        moved = any(t.gate.gpu != fastest.gate.gpu for t in after)
        return after[-1] if moved else fastest

    @property
    def pending(self) -> Transition | None:
        """The one that waits for a person."""
        return next((t for t in self.transitions if t.decision.answer is Answer.PENDING), None)

    @property
    def steps(self) -> int:
        """Gated candidates, seeds not among them."""
        return sum(1 for t in self.transitions if t.parent is not None)

    @property
    def cost(self) -> Cost:
        """Everything spent so far, last looks and what was thrown away among it."""
        steps = total_cost(t.cost for t in self.transitions)
        return steps.plus(total_cost(spend.cost for spend in self.spends))

    @property
    def next_number(self) -> int:
        """Number of the next transition."""
        return max([self.taken, *(t.number for t in self.transitions)]) + 1


def _kept(transition: Transition) -> bool:
    return transition.decision.answer is Answer.ACCEPTED


def _microseconds(transition: Transition) -> float:
    time = transition.gate.time
    return time.microseconds if time is not None else float("inf")


def total_cost(costs: Iterable[Cost]) -> Cost:
    """The sum."""
    total = Cost()
    for cost in costs:
        total = total.plus(cost)
    return total


def modeled_speed(before: Time, after: Time) -> Speed | None:
    """How many times faster `after` is modeled than `before`; None unless both are modeled."""
    if before.kind is not Kind.MODELED or after.kind is not Kind.MODELED:
        return None
    return Speed(kind=Kind.MODELED, ratio=before.microseconds / after.microseconds)
