"""The list of skills that steps are made from: read, edit, disable, pin."""

from typing import ClassVar

from textual.binding import BindingType

from workbench.errors import WorkbenchError
from workbench.skills.card import Skill, read_card
from workbench.skills.library import Library, load_library, user_folder
from workbench.skills.preferences import load_preferences, save_preferences
from workbench.tui.dialogs.listed import Listed
from workbench.tui.dialogs.skill_card import card_box
from workbench.tui.editor import open_editor
from workbench.tui.keys import Place, bindings
from workbench.tui.panes.listing import Row


class Skills(Listed[None]):
    """A list of cards; decisions made here hold for all later steps in all sessions."""

    place = Place.SKILLS
    heading = "Skills"
    heads = ("id", "standing", "you", "title", "from", "edit")
    empty = ("there is no card",)
    keep = ("list-back", "help")
    BINDINGS: ClassVar[list[BindingType]] = bindings(Place.SKILLS)
    _library: Library | None = None

    def rows(self) -> tuple[Row, ...]:
        """The cards, in the plain order of techniques."""
        library = self._library = load_library()
        return tuple(_row(skill, library) for skill in library.skills.values())

    @property
    def _skill(self) -> Skill | None:
        row = self.listing.current
        return None if row is None or self._library is None else self._library.skill(row.key)

    def act(self) -> None:
        """Show the card."""
        skill, library = self._skill, self._library
        if skill is not None and library is not None:
            said = library.decided(skill.card.id)
            self.app.push_screen(card_box(skill, said, self.scene))

    def action_edit(self) -> None:
        """Open the card in the user's editor; a shipped card is first copied to the user's folder.

        The copy then replaces the shipped card.
        """
        skill = self._skill
        if skill is None:
            return
        try:
            path = skill.path
            if skill.origin != "user":
                path = user_folder() / f"{skill.card.id}.toml"
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("xb") as file:
                    file.write(skill.path.read_bytes())
            open_editor(self.app, path)
            read_card(path)
        except (WorkbenchError, OSError) as fault:
            self.refuse(fault)
        else:
            self.notify(f"{path} can be used", markup=False)
        self.read_again()

    def action_disable(self) -> None:
        """Never choose it, or let it be chosen again."""
        self._decide(disabled=True)

    def action_pin(self) -> None:
        """Choose it first where its conditions hold, or give it its ordinary place again."""
        self._decide(disabled=False)

    def _decide(self, *, disabled: bool) -> None:
        skill, library = self._skill, self._library
        if skill is None or library is None:
            return
        name = skill.card.id
        try:
            now = load_preferences()
            if disabled:
                changed = now.with_card(name, disabled=name not in now.disabled)
            else:
                changed = now.with_card(name, pinned=name not in now.pinned)
            save_preferences(changed)
        except (WorkbenchError, OSError) as fault:
            self.refuse(fault)
        self.read_again()


def _row(skill: Skill, library: Library) -> Row:
    said = library.decided(skill.card.id)
    origin = f"{skill.origin}, for a shipped one" if skill.replaces else skill.origin
    cells = (
        skill.card.id, skill.standing, said, skill.card.title, origin,
        skill.card.carrier.edit or "sketch",
    )  # fmt: skip
    style = {"disabled": "faint", "pinned": "accent"}.get(said, "")
    return Row(key=skill.card.id, cells=cells, style=style)
