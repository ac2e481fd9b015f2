"""What the screen shows has a plain command, for whoever cannot or will not use a screen."""

from fake_client import waiting

from workbench.cli.report import status_text, thoughts_text
from workbench.engine.view import Talk


def test_plain_status_has_the_rungs_and_the_models_words() -> None:
    assert "rungs     policy 13 > compile 12" in status_text(waiting())
    talk = Talk(number=12, role="planner", model="m", says="$0.21", reasoning="why", text="what")
    assert thoughts_text(talk) == "planner, m, asked for v12: $0.21\n\nthinks\nwhy\n\nsays\nwhat"
    assert thoughts_text(None).startswith("no model was asked")
