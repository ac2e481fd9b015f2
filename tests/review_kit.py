"""A session in review mode with an engine at work on it, for screens that decide."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_parts import ScriptedWorkplace, new_session

from workbench.engine.serve import serve_session
from workbench.session.records import Budget, Mode


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Path]:
    """Its engine works until two steps are decided."""
    folder = tmp_path / "softmax-1"
    new_session(folder, mode=Mode.REVIEW, budget=Budget(steps=2))
    engine = threading.Thread(
        target=serve_session, args=(folder,), kwargs={"open_workplace": ScriptedWorkplace}
    )
    engine.start()
    yield folder
    engine.join(60)
    assert not engine.is_alive()
