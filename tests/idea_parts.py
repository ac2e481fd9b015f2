"""A model in a backward walk: its scripted replies, and a walk that asks for them."""

import pytest
from model_server import Answer
from walk_parts import GEMM, ScriptedBench

from workbench.agents.roles.remover import About
from workbench.engine.suggesting import Suggesting
from workbench.kernels.target import target
from workbench.lineage.records import Attempt, WalkLimits
from workbench.lineage.walk import Walk
from workbench.problems.load import load_problem
from workbench.session.records import Budget, Mode, SessionSettings
from workbench.session.store import SessionStore
from workbench.skills.library import Library

PRICES = '["scripted-1"]\ninput = 10.0\noutput = 30.0\n'
NONE = Answer(text="mechanism: none")


def named(home, monkeypatch):
    """Name the scripted model, its key and its prices."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-scripted")
    monkeypatch.setenv("OPENAI_MODEL", "scripted-1")
    prices = home / ".config" / "workbench" / "prices.toml"
    prices.parent.mkdir(parents=True, exist_ok=True)
    prices.write_text(PRICES)


def plain_end():
    """The kernel in which no inverse finds anything more, and the line that the model changes."""
    walk = Walk(ScriptedBench(), WalkLimits(), lambda _line: None)
    walk.run(GEMM, "expert.py")
    source = walk.attempts[-1].source
    (line,) = [one for one in source.splitlines() if "tl.dot(" in one]
    return source, line


def removal(name, old, new):
    code = f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE"
    return Answer(text=f"mechanism: {name}\nat: the loop\nsays: what it does\n\n{code}")


def change(old, new):
    return Answer(text=f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE")


def new_store(folder, name="gemm"):
    """An empty lineage of a shipped problem, from which a model may be asked too."""
    problem = load_problem(name)
    settings = SessionSettings(
        name=folder.name,
        kind="lineage",
        problem=name,
        mode=Mode.AUTO,
        device="cpu",
        target="sm90",
        proposer="both",
        budget=Budget(),
        created="2026-01-01T00:00:00+00:00",
    )
    return SessionStore.create(folder, settings, problem.source, problem.sidecar)


def about():
    return About(problem=load_problem("gemm"), library=Library({}), target=target("sm90"))


def walked(store, server, monkeypatch, *, bench=None, lines=(), usd=None, limits=None, source=GEMM):
    """The walk of the test expert; the model answers once no inverse finds anything more."""
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    earlier = [line for line in lines if isinstance(line, Attempt)]
    ideas = Suggesting(store.state, Budget(usd=usd), about, earlier, pytest.fail)
    walk = Walk(bench or ScriptedBench(), limits or WalkLimits(), lambda _line: None, lines, ideas)
    try:
        ended = walk.run(source, "expert.py")
    finally:
        ideas.close()
    return ended, walk
