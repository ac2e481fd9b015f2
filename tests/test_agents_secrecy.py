"""No key and no folder of this machine reaches a model, wherever it stands."""

import pytest
from agents_kit import SEED, model_plan, refused, situation
from msgspec import structs

from workbench.agents.roles import diagnoser, generator, optimizer, planner
from workbench.agents.secrecy import masked, sealed
from workbench.kernels.target import target
from workbench.skills.library import load_library

ROOM = 100_000
KEYS = (
    "sk-proj-AbCdEf0123456789abcdef",
    "sk-0123456789abcdef0123",
    "hf_AbCdEfGhIjKlMnOp1234",
    "ghp_0123456789abcdefghijABCD",
    "AKIA0123456789ABCDEF",
)
SAID = "open sesame, it is me"
FOLDERS = ("/home/someone/kernels/softmax.py", "/mnt/fast disk", "/tmp/weights/one.pt")


def told(situation_now) -> list[str]:
    """Every prompt that a run may send from here."""
    cards = load_library()
    prompts = [
        planner.prompt(situation_now, ROOM),
        optimizer.prompt(situation_now, model_plan(intent=f"as in {FOLDERS[0]} {KEYS[0]}"), ROOM),
        diagnoser.prompt(situation_now, refused(), ROOM),
        generator.prompt(situation_now.problem, cards, target("sm90"), ROOM, f"see {FOLDERS[2]}"),
    ]
    return ["\n".join(m.content for m in prompt.messages) for prompt in prompts]


def test_no_prompt_holds_a_key_or_a_folder_of_the_problem_or_the_kernel(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_LAB_TOKEN", SAID)
    monkeypatch.setenv("OPENAI_API_KEY", "plainwords")
    comment = "".join(f"# {word}\n" for word in (*KEYS, SAID, "plainwords", *FOLDERS))
    now = situation(tmp_path, source=comment + SEED, hints=(f"look at {FOLDERS[0]}",))
    problem = structs.replace(now.problem, source=comment + now.problem.source)
    now = structs.replace(now, problem=problem)
    for text in told(now):
        for word in (*KEYS, SAID, "plainwords", "/home/", "/tmp/", "/mnt/", str(tmp_path)):
            assert word not in text
        assert "softmax.py" in text or "one.pt" in text


def test_a_secret_that_begins_like_another_leaves_nothing_of_itself():
    known = {"A_TOKEN": "swordfish", "B_TOKEN": "swordfish-and-more", "C_TOKEN": "swordfish-and"}
    assert sealed("use swordfish-and-more, or swordfish", known) == "use (key), or (key)"


@pytest.mark.parametrize(
    "said",
    [
        "use s3cr3t-pg-pass", "use S3CR3T-PG-PASS", "at postgres://me:s3cr3t-pg-pass@db/x",
        "Authorization: Bearer abcdefghijklmnop123456", "through http://me:proxypw99@proxy:3128",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
        'File "/fsx/alice/one.py", line 3', "/export/home/alice/one.py", "~/alice/one.py",
        "file:///home/alice/one.py", "../../../home/alice/one.py", "//home//alice//one.py",
        "open('/gscratch/alice smith/one')", "/fsx/alice/caches/x of mine",
    ],
)  # fmt: skip
def test_no_way_of_writing_a_secret_or_a_folder_passes(said):
    known = {"PGPASS": "s3cr3t-pg-pass", "HOME": "/fsx/alice", "PWD": "/fsx/alice/caches"}
    told = sealed(said, known).casefold()
    for word in ("s3cr3t", "abcdefgh", "proxypw99", "eyj", "alice", "fsx", "home"):
        assert word not in told


@pytest.mark.parametrize(
    "code",
    [
        "key_padding_mask = key_states_2 + sk_offsets_block_size_2 - pk_ptrs",
        "hf_config_for_everybody_at_once = gsk_value_of_the_thing",
        "x = n/data/2 + (a)/tmp/b + total /count/rows",
        "key_cache_ptr + sk-offsets-of-k",
        "# https://docs.python.org/home/index.html and a/b/c.py",
        "offset = n // block /2 + rows /cols/ 4 + x[i] /y/z.numel()",
    ],
)
def test_code_that_holds_neither_is_left_as_it_is(code):
    assert sealed(code, {"KEY": "short", "HOME": "/root", "SK_TOKEN": ""}) == code


def test_the_word_key_in_a_name_is_no_key_in_a_report_either():
    says = "NameError: name 'key_padding' is not defined, nor key_cache_ptr"
    assert masked(says) == says
    assert masked("Incorrect API key: sk-ab***********wxyz") == "Incorrect API key: (key)"
    assert masked("key_9f8a7b6c5d is not valid") == "(key) is not valid"
