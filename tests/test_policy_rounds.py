"""One round is enough where no fact grew after it was asked for: more find nothing else."""

import ast
from pathlib import Path

import pytest
from test_policy import ALLOWED, HEAD, REFUSED

from workbench.gate.policy.check import Machine

CORPUS = Path(__file__).parent / "corpus"
FILES = [p.read_text() for p in sorted(CORPUS.rglob("*.py")) if p.parent.name != "refs"]
GROUPS = {
    "refused": [HEAD + text for text in REFUSED.values()],
    "allowed": [HEAD + text for text in ALLOWED.values()],
    "corpus": FILES,
}


class Patient(Machine):
    """Goes on for as long as anything grows at all."""

    def grew(self, owner: object, name: str = "") -> None:
        del owner, name
        self.changed = True


def told(machine: Machine) -> list[tuple[str, int, str]]:
    machine.run()
    return sorted(machine.refused)


@pytest.mark.parametrize("group", GROUPS)
def test_more_rounds_find_nothing_else(group):
    for text in GROUPS[group]:
        assert told(Machine(ast.parse(text), ())) == told(Patient(ast.parse(text), ())), text


LEARNS = {
    "a member that is set behind its use": """
class ModelNew(nn.Module):
    def forward(self, x):
        self.use(x)
        self.keep(x)
        return run(x)
    def use(self, x):
        return self.kept.tolist() if hasattr(self, "kept") else None
    def keep(self, x):
        self.kept = x
""",
    "a list that grows behind its use": """
class ModelNew(nn.Module):
    def forward(self, x):
        kept = []
        for _ in range(2):
            for one in kept:
                one.tolist()
            kept.append(x)
        return run(x)
""",
    "a global that a later function binds": """
kept = None
def use():
    return kept.tolist()
def keep(x):
    global kept
    kept = x
class ModelNew(nn.Module):
    def forward(self, x):
        for turn in range(2):
            if turn:
                use()
            keep(x)
        return run(x)
""",
    "a name of the outer function, bound behind the inner one": """
class ModelNew(nn.Module):
    def forward(self, x):
        def use():
            return kept.tolist()
        kept = None
        for turn in range(2):
            if turn:
                use()
            kept = x
        return run(x)
""",
    "a function that calls itself": """
def down(x, n):
    if n:
        return down(x, n - 1).tolist()
    return x
class ModelNew(nn.Module):
    def forward(self, x):
        down(x, 2)
        return run(x)
""",
    "a default that a second definition gives": """
class ModelNew(nn.Module):
    def forward(self, x):
        made = []
        for given in (None, x):
            for function in made:
                function()
            def late(value=given):
                return value.tolist()
            made.append(late)
        made[1]()
        return run(x)
""",
}


@pytest.mark.parametrize("text", LEARNS.values(), ids=LEARNS)
def test_what_is_learnt_late_is_looked_at_again(text):
    assert told(Machine(ast.parse(HEAD + text), ()))[0][0] == "policy.reads-values"
