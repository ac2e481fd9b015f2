"""A session's problem, laid out as files from what git holds."""

from pathlib import Path

from msgspec import structs

from workbench.problems.load import load_problem, shipped_problems
from workbench.problems.records import Problem
from workbench.session.store import SessionStore


def problem_of(store: SessionStore, name: str, folder: Path) -> Problem:
    """The problem as git has it, since files in the person's folder may have been edited.

    It is laid out in `folder`; `name` is what the session calls it. Raises WorkbenchError for one
    that cannot be loaded, naming the person's file: the copy is not where it is to be mended.
    """
    files = store.problem()
    folder.mkdir(exist_ok=True)
    (folder / "problem.py").write_text(files.source, encoding="utf-8")
    sidecar = folder / "problem.toml"
    sidecar.unlink(missing_ok=True)
    if files.sidecar:
        sidecar.write_text(files.sidecar, encoding="utf-8")
    problem = structs.replace(
        load_problem(folder / "problem.py"), name=name, path=Path(f"{name}.py")
    )
    if name in shipped_problems():
        shipped = load_problem(name)
        if shipped.source == files.source:
            problem = structs.replace(problem, seed=shipped.seed)
    return problem
