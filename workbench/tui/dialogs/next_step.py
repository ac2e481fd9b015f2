"""The list of cards from which a person chooses the next step, or plans it in words."""

from typing import ClassVar

from textual.binding import BindingType

from workbench.engine.wishes import Choose
from workbench.skills.library import Library, load_library
from workbench.tui.dialogs.ask import Reason
from workbench.tui.dialogs.listed import Listed
from workbench.tui.dialogs.skill_card import card_box
from workbench.tui.keys import Place, bindings
from workbench.tui.panes.listing import Row


class NextStep(Listed[Choose]):
    """Answers with the wish; cards that fitted the newest plan's kernel come first, in its order.

    The others may be chosen too: whether a card fits is decided again when the step begins.
    """

    place = Place.NEXT
    heading = "Cards for the next step"
    heads = ("rank", "card", "you", "why")
    empty = ("there is no card",)
    keep = ("choose-this", "list-back", "help")
    BINDINGS: ClassVar[list[BindingType]] = bindings(Place.NEXT)
    _library: Library | None = None

    def rows(self) -> tuple[Row, ...]:
        """One for each place in the ranking, then the cards that have none."""
        library = self._library = load_library()
        ranked = [one for one in map(_placed, self._ranking) if one[0] in library.skills]
        known = {card for card, _, _ in ranked}
        first = [
            Row(
                key=f"{card} {kernel}",
                cells=(str(place), card, library.decided(card), f"{why}; on {kernel}"),
                style="accent",
            )
            for place, (card, kernel, why) in enumerate(ranked, start=1)
        ]
        rest = [
            Row(key=f"{name} ", cells=("-", name, library.decided(name), skill.card.title))
            for name, skill in library.skills.items()
            if name not in known
        ]
        return (*first, *rest)

    @property
    def _ranking(self) -> tuple[str, ...]:
        """Of the newest plan; where only git is left of a session, of the selected version's."""
        plan = self.scene.snapshot.plan or self.scene.plan
        return () if plan is None or plan.policy is None else plan.policy.ranking

    @property
    def _wish(self) -> Choose | None:
        row = self.listing.current
        if row is None:
            return None
        card, _, kernel = row.key.partition(" ")
        return Choose(skill=card, kernel=kernel)

    def act(self) -> None:
        """Show the card."""
        wish, library = self._wish, self._library
        if wish is not None and library is not None:
            said = library.decided(wish.skill)
            self.app.push_screen(card_box(library.skill(wish.skill), said, self.scene))

    def action_choose_this(self) -> None:
        """Make the card the next step."""
        wish = self._wish
        if wish is not None:
            self.dismiss(wish)

    def action_plan(self) -> None:
        """Ask for the plan in words, which a model then carries out."""
        wish = self._wish
        if wish is None:
            return

        def planned(text: str | None) -> None:
            if text:
                self.dismiss(Choose(skill=wish.skill, kernel=wish.kernel, change=text))

        hint = "what to change, in your words; a model carries it out in place of the card's edit"
        refusal = "say what to change; without words c takes the card's own edit"
        title = f"Plan for {wish.skill}"
        ask = Reason(title, hint, self.look, refusal=refusal, placeholder="one pass over the row")
        self.app.push_screen(ask, planned)

    def action_drop(self) -> None:
        """Take back what was chosen."""
        self.dismiss(Choose())


def _placed(text: str) -> tuple[str, str, str]:
    """Card, kernel and reason of a line of the ranking."""
    card, _, rest = text.partition(" on ")
    kernel, _, why = rest.partition(": ")
    return card, kernel, why
