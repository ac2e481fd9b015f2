"""What the history of a session implies for trying a card again."""

from collections.abc import Iterable

from msgspec import Struct

from workbench.search.records import Tried
from workbench.skills.library import Library
from workbench.skills.records import Parameter


class Line(Struct, frozen=True):
    """The accepted steps that lead to the incumbent, and everything tried beside them."""

    steps: tuple[Tried, ...]
    """Steps from the seed to the incumbent."""
    history: tuple[Tried, ...]

    @property
    def cards(self) -> tuple[str, ...]:
        """Cards accepted on the line, in order, each once."""
        every = (card for t in self.steps for card in (*t.first, t.card))
        return tuple(dict.fromkeys(card for card in every if card))

    @property
    def tried_cards(self) -> tuple[str, ...]:
        """Cards tried in this session, in order, each once."""
        return tuple(dict.fromkeys(t.card for t in self.history if t.card))

    @property
    def failures(self) -> int:
        """Steps refused since the last accepted one."""
        last = self.steps[-1].number if self.steps else -1
        return sum(1 for t in self.history if t.number > last and not t.accepted)

    @property
    def seen(self) -> frozenset[str]:
        """Normalized hashes of every source that was ever gated."""
        return frozenset(t.sha256 for t in self.history)

    def features(self, library: Library) -> frozenset[str]:
        """What the accepted cards provide."""
        known = [library.skills[c].card for c in self.cards if c in library.skills]
        return frozenset(f for card in known for f in card.provides)

    def trials(self, card: str, kernel: str, library: Library) -> tuple[Tried, ...]:
        """Trials of a card on a kernel that still count.

        An accepted step of an earlier technique changes what a later one can do, so what the later
        one tried before it is forgotten.
        """
        order = library.skills[card].card.order
        since = max(
            (
                t.number
                for t in self.steps
                if t.card in library.skills and library.skills[t.card].card.order < order
            ),
            default=-1,
        )
        return tuple(
            t for t in self.history if t.card == card and t.kernel == kernel and t.number > since
        )


def line_of(history: Iterable[Tried], incumbent: int) -> Line:
    """The line that ends at a transition. A history with gaps gives the part that is there."""
    every = tuple(history)
    by_number = {t.number: t for t in every}
    steps: list[Tried] = []
    current = by_number.get(incumbent)
    while current is not None and current not in steps:
        steps.append(current)
        current = None if current.parent is None else by_number.get(current.parent)
    return Line(tuple(reversed(steps)), every)


def bound_to(trials: Iterable[Tried], binding: dict[str, Parameter]) -> tuple[Tried, ...]:
    """The trials at one anchor: those whose parameters hold what chose it."""
    return tuple(t for t in trials if binding.items() <= t.parameters.items())
