"""Writes a session's problem from git into files."""

import secrets
from pathlib import Path

from msgspec import structs

from workbench.problems.load import load_problem, shipped_problems
from workbench.problems.records import Problem
from workbench.session.reader import SessionReader


def problem_of(store: SessionReader, name: str, folder: Path) -> Problem:
    """The problem as git has it, since files in the person's folder may have been edited.

    It is written to `folder`; `name` is what the session calls it. Raises WorkbenchError for one
    that cannot be loaded, naming the person's file, which is the one to be mended.
    """
    files = store.problem()
    folder.mkdir(exist_ok=True)
    _lay(folder / "problem.py", files.source)
    _lay(folder / "problem.toml", files.sidecar)
    problem = structs.replace(
        load_problem(folder / "problem.py"), name=name, path=Path(f"{name}.py")
    )
    if name in shipped_problems():
        shipped = load_problem(name)
        if shipped.source == files.source:
            problem = structs.replace(problem, seed=shipped.seed)
    return problem


def _lay(path: Path, text: str) -> None:
    """Write the file atomically, or remove it where there is no content.

    Several processes read a session at once, and one that missed the sidecar for a moment would
    judge at other shapes and tolerances.
    """
    if not text:
        path.unlink(missing_ok=True)
        return
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
