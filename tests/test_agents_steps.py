"""Rounds towards a candidate, and the forms that replies fill in."""

import pytest
from agents_kit import (
    BETTER,
    SEED,
    Answers,
    diagnosis,
    plan_reply,
    refused,
    said,
    situation,
    transition,
)

from workbench.agents.memory import remember
from workbench.agents.records import Ending, NoCandidate, Role
from workbench.agents.reply_json import read_form
from workbench.agents.reply_records import HandedBack
from workbench.agents.roles import diagnoser
from workbench.agents.situation import signature_of
from workbench.agents.step import next_candidate
from workbench.kernels.source import normalized_sha256
from workbench.search.records import Proposal


@pytest.fixture(scope="module")
def now(tmp_path_factory):
    return situation(tmp_path_factory.mktemp("cards"))


def text_of(prompt) -> str:
    return "\n".join(m.content for m in prompt.messages)


@pytest.mark.parametrize(
    "text",
    [
        diagnosis(),
        f"Sure:\n```json\n{diagnosis()}\n```\nDone.",
        f"<think>{{}}</think>{diagnosis()}",
        diagnosis().replace("}", ",}"),
        diagnosis().replace('"critical_issue"', "\u201ccritical_issue\u201d"),
        '{"a": 1} then ' + diagnosis(),
    ],
)
def test_a_form_is_found_whatever_stands_around_it(text):
    assert read_form(text, diagnoser.Diagnosis).critical_issue == "cols is not defined"


@pytest.mark.parametrize("text", ["", "no", "{", "[1, 2]", '{"a": 1}', "{" * 3000, "\x00{}"])
def test_what_is_no_form_is_handed_back(text):
    assert isinstance(read_form(text, diagnoser.Diagnosis), HandedBack)


def test_a_round_plans_writes_and_keeps_how_the_reply_was_read(now):
    code = BETTER.replace("import triton.language as tl\n", "")
    answers = Answers(planner=[plan_reply(now)], optimizer=[f"```python\n{code}\n```"])
    proposal = next_candidate(now, None, answers)
    assert isinstance(proposal, Proposal)
    assert "import triton.language as tl" in proposal.source
    assert "read from a fenced reply" in proposal.plan.trail
    assert any("missing-import" in line for line in proposal.plan.trail)


def test_a_wrong_claim_is_handed_back_once_and_the_second_answer_counts(now):
    lie = plan_reply(now, evidence=[{"fact": "launch.num_warps", "value": 32}])
    answers = Answers(planner=[lie, plan_reply(now)], optimizer=[f"```python\n{BETTER}\n```"])
    assert isinstance(next_candidate(now, None, answers), Proposal)
    role, turn, second = answers.prompts[1]
    assert (role, turn) == (Role.PLANNER, 2)
    assert second.messages[-2].content == lie
    assert "launch.num_warps is 4, not 32" in second.messages[-1].content


def test_two_unusable_answers_end_the_round_with_the_reason(now):
    answers = Answers(planner=["no idea", "still none"])
    found = next_candidate(now, None, answers)
    assert isinstance(found, NoCandidate)
    assert "planner" in found.says
    refusal = Answers(planner=[said("", Ending.REFUSED)])
    assert "rather not" in next_candidate(now, None, refusal).says
    assert len(refusal.prompts) == 1


def test_a_source_that_was_gated_before_is_handed_back(tmp_path):
    memory = remember([transition(0)], {0: normalized_sha256(SEED)})
    now = situation(tmp_path, memory=memory)
    same = f"```python\n# my own words\n{SEED}\n```"
    answers = Answers(planner=[plan_reply(now)], optimizer=[same, f"```python\n{BETTER}\n```"])
    proposal = next_candidate(now, None, answers)
    assert isinstance(proposal, Proposal)
    assert "that is v0 again" in answers.prompts[2][2].messages[-1].content


def test_a_refused_candidate_is_diagnosed_and_mended_and_says_what_it_mends(now):
    fix = "<<<<<<< SEARCH\nBLOCK=2048\n=======\nBLOCK=4096\n>>>>>>> REPLACE"
    line = next(text for text in BETTER.split("\n") if "BLOCK=2048" in text)
    fix = fix.replace("BLOCK=2048", line).replace(
        "BLOCK=4096", line.replace("BLOCK=2048", "BLOCK=4096")
    )
    answers = Answers(diagnoser=[diagnosis()], repairer=[fix])
    proposal = next_candidate(now, refused(), answers)
    assert isinstance(proposal, Proposal)
    assert proposal.plan.repairs == 1
    assert "renamed" in proposal.plan.reason
    assert "BLOCK=4096" in proposal.source
    assert "cols is not defined" in text_of(answers.prompts[1][2])


def test_the_problems_signature_is_read_from_its_file(now):
    signature = signature_of(now.problem.source)
    assert signature is not None
    assert len(signature.forward) == 1
    assert signature_of("class Model:\n    def forward(self, *x): ...") is None
    assert signature_of("not python (") is None
