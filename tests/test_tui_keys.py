"""The key table is the truth: each key does something where it works, and help lists it."""

import pytest
from fake_client import waiting
from tui_kit import stage

from workbench.tui.app import WorkbenchApp
from workbench.tui.dialogs.compare import Compare
from workbench.tui.dialogs.listed import Listed
from workbench.tui.dialogs.next_step import NextStep
from workbench.tui.dialogs.review import Review
from workbench.tui.dialogs.sessions import Sessions
from workbench.tui.dialogs.skills import Skills
from workbench.tui.dialogs.text import Text, help_lines
from workbench.tui.diff.view import DiffView
from workbench.tui.keys import KEYS, Key, Place, action_of, keymap, keys_of
from workbench.tui.panes.card import Card
from workbench.tui.panes.lineage import Lineage
from workbench.tui.panes.listing import Listing
from workbench.tui.scene import Scene

WHERE = {
    Place.BOARD: WorkbenchApp,
    Place.LINEAGE: Lineage,
    Place.PANE: Card,
    Place.DIFF: DiffView,
    Place.REVIEW: Review,
    Place.COMPARE: Compare,
    Place.LIST: Listing,
    Place.LISTED: Listed,
    Place.SESSIONS: Sessions,
    Place.SKILLS: Skills,
    Place.NEXT: NextStep,
    Place.TEXT: Text,
}
EACH = [(key, place) for key in KEYS for place in key.places]


@pytest.mark.parametrize(("key", "place"), EACH, ids=[f"{k.id}-{p}" for k, p in EACH])
def test_every_key_does_something_wherever_it_is_heard(key: Key, place: Place) -> None:
    name = action_of(key).partition("(")[0]
    where = WorkbenchApp if name.startswith("app.") else WHERE[place]
    assert callable(getattr(where, f"action_{name.removeprefix('app.')}", None)), where.__name__


@pytest.mark.parametrize("place", list(Place))
def test_help_tells_every_key_of_a_place_at_any_width(place: Place) -> None:
    for width in (36, 80):
        lines = help_lines(KEYS, (place,))(Scene(snapshot=waiting()), width)
        text = " ".join(" ".join(line.plain for line in lines).split())
        for key in keys_of(KEYS, place):
            assert key.says in text, key.id
        assert all(line.cell_length <= width for line in lines)


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ({"undoo": "u"}, "no key id 'undoo'; did you mean 'undo'?"),
        ({"undo": "b"}, "undo: 'b' is branch already"),
        ({"branch": "escpae"}, "branch: no key 'escpae'; did you mean 'escape'?"),
        ({"undo": ""}, "undo: no key given"),
    ],
)
def test_an_override_that_cannot_be_is_left_out_and_named(
    wanted: dict[str, str], says: str
) -> None:
    made = keymap(wanted)
    assert made.faults == (says,)
    assert made.overrides == {}
    assert made.table == KEYS


def test_two_keys_may_change_places() -> None:
    made = keymap({"undo": "b", "branch": "u"})
    assert made.faults == ()
    assert made.overrides == {"undo": "b", "branch": "u"}


async def test_an_answer_to_undo_on_another_key() -> None:
    from workbench.tui.settings import Settings, TuiSettings

    settings = Settings(tui=TuiSettings(), keymap=keymap({"undo": "U"}))
    async with stage(waiting(), settings=settings) as on:
        await on.press("u")
        assert len(on.app.screen_stack) == 1
        await on.press("U")
        assert len(on.app.screen_stack) == 2
