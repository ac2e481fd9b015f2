"""How far a library was tried is counted by cards, and by rows that count."""

from msgspec import structs

from workbench.skills.counts import counts
from workbench.skills.library import load_library
from workbench.skills.records import EvidenceRow


def row(problem: str, kind: str = "measured", **fields) -> EvidenceRow:
    known = {"verdict": "accepted", "before_us": 2.0, "after_us": 1.0, **fields}
    return EvidenceRow(
        session="s", commit="c", device="d", kind=kind, problem=problem, family="softmax",
        target="sm90", **known,
    )  # fmt: skip


def counted(*rows: EvidenceRow):
    """What one card amounts to that has this evidence and nothing else."""
    skill = load_library().skills["num-stages"]
    card = structs.replace(skill.card, evidence=rows, admission=(), risk=())
    return counts([structs.replace(skill, card=card, risks=())])


def test_two_problems_are_two_whatever_was_tried_on_each():
    once = counted(row("softmax"), row("softmax"))
    assert (once.two_problems, once.two_problems_measured) == (0, 0)
    assert "a kept step" not in once.poor["num-stages"]
    twice = counted(row("softmax"), row("gelu"))
    assert (twice.two_problems, twice.two_problems_measured) == (1, 1)
    assert twice.poor["num-stages"] == ("a risk that was seen",)


def test_what_says_nothing_is_counted_nowhere():
    """No family was calibrated under this name: a modeled time is no evidence there."""
    silent = counted(row("softmax", "modeled"), row("gelu", "modeled"))
    assert (silent.kept, silent.two_problems) == (0, 0)
    wrong = counted(*(row(p, "modeled", after_us=None, verdict="rejected") for p in "ab"))
    assert (wrong.kept, wrong.two_problems, wrong.two_problems_measured) == (0, 1, 0)
