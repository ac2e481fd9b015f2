"""A session's problem as files: whole at every moment, however many lay it out."""

import threading
from pathlib import Path

from msgspec import structs
from session_kit import settings

from workbench.engine.laying import problem_of
from workbench.problems.load import load_problem
from workbench.session.store import SessionStore

SIDECAR = "family = 'elementwise'\n"


def session(folder: Path) -> SessionStore:
    source = load_problem("softmax").source
    mine = structs.replace(settings(folder.name), problem="softmax")
    return SessionStore.create(folder, mine, source, SIDECAR)


def test_whoever_looks_while_another_lays_it_out_sees_the_sidecar(tmp_path):
    store, place = session(tmp_path / "softmax-1"), tmp_path / "laid"
    problem_of(store, "softmax", place)
    over, seen = threading.Event(), set()

    def look() -> None:
        while not over.is_set():
            path = place / "problem.toml"
            seen.add(path.read_text(encoding="utf-8") if path.exists() else "none")

    watcher = threading.Thread(target=look)
    watcher.start()
    for _ in range(12):
        problem_of(store, "softmax", place)
    over.set()
    watcher.join(20)
    assert seen == {SIDECAR}
    assert sorted(path.name for path in place.iterdir()) == ["problem.py", "problem.toml"]


def test_a_sidecar_that_git_has_not_is_taken_away(tmp_path):
    store, place = session(tmp_path / "softmax-1"), tmp_path / "laid"
    place.mkdir()
    (place / "problem.toml").write_text("family = 'left over'\n", encoding="utf-8")
    store.save_sidecar("")
    assert problem_of(store, "softmax", place).sidecar == ""
    assert not (place / "problem.toml").exists()
