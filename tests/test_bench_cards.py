"""`bench cards`: what trials say, what of it is evidence, and how it comes into the cards."""

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from workbench.bench.card_current import outdated
from workbench.bench.card_needs import needs_of, worth_recording
from workbench.bench.card_risks import risks_of
from workbench.bench.card_states import kept_in, states_of
from workbench.bench.card_trials import Trial, evidence_of, keep, proof_of, read_trials
from workbench.bench.cards import shared
from workbench.engine.devices import Place
from workbench.errors import WorkbenchError
from workbench.gate.records import Verdict
from workbench.kernels.edits.registry import EDITS
from workbench.kernels.source import read_source
from workbench.measure.records import Kind, Speed, Time
from workbench.paths import shipped
from workbench.problems.load import load_problem, shipped_problems
from workbench.skills.card import read_card
from workbench.skills.counts import counts
from workbench.skills.library import load_library
from workbench.skills.writing import add_proofs


def workbench(*arguments, expected=0):
    done = subprocess.run(
        [sys.executable, "-m", "workbench.cli.main", "bench", "cards", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == expected, done.stderr[-2000:]
    return done


GELU = (load_problem("gelu").seed or Path()).read_text()
KERNEL = read_source(GELU).launched[0]
BLOCK = EDITS["block-size"].anchors(GELU, KERNEL)[0].parameters["block"]
GROWN = EDITS["block-size"].apply(GELU, KERNEL, {"block": BLOCK, "value": 4096}).source


def trial(ratio=None, *, problem="gemm", family="gemm", device="cpu", **others):
    kind = Kind.MODELED if device == "cpu" else Kind.MEASURED
    times = [None, None]
    if ratio is not None:
        times = [Time(kind=kind, microseconds=100.0), Time(kind=kind, microseconds=100.0 / ratio)]
    verdict = Verdict.ACCEPTED if ratio is not None and ratio > 1.01 else Verdict.REJECTED
    made = Trial(
        card="grow-block",
        problem=problem,
        state="seed",
        family=family,
        target="sm90",
        device=device,
        kernel=KERNEL,
        edit="block-size",
        parameters={"block": BLOCK, "value": 4096},
        verdict=verdict,
        code="" if verdict is Verdict.ACCEPTED else "profile.slower",
        says="it says so",
        before=times[0],
        after=times[1],
        sha256=f"{ratio} {problem} {device}",
        parent=GELU,
        source=GROWN,
    )
    return structs.replace(made, **others)


def test_a_card_is_tried_and_its_trial_can_be_repeated(tmp_path):
    file, again = tmp_path / "trials.jsonl", tmp_path / "again.jsonl"
    first = ("gelu", "--card", "grow-block", "--every", "--device", "cpu", "--jsonl", file)
    done = workbench(*first, "--json")
    (told,) = [json.loads(line) for line in done.stdout.splitlines()]
    (kept,) = read_trials(file)
    assert (kept.card, kept.problem, kept.state) == ("grow-block", "gelu", "seed")
    assert told["says"] == kept.says
    assert kept.verdict is Verdict.ACCEPTED
    assert kept.helped
    assert kept.facts["launch.num_warps"] == 4

    workbench("--again", file, "--device", "cpu", "--jsonl", again)
    (repeated,) = read_trials(again)
    assert (repeated.source, repeated.verdict) == (kept.source, kept.verdict)


def test_what_would_be_tried_can_be_listed_and_nothing_is_judged():
    done = workbench("gelu", "--card", "fuse-launches", "--card", "dot-tf32", "--every", "--list")
    rows = [line.split() for line in done.stdout.splitlines()]
    assert ["1", "fuse-launches", "gelu", "two_kernels", "-"] in rows
    assert "dot-tf32: nowhere to try it; no kernel has a place for its edit" in done.stdout


def test_no_time_is_no_trial():
    done = workbench("gelu", "--card", "grow-block", "--every", "--wall-seconds", 0)
    assert "nothing was timed" in done.stdout


def test_only_kernels_where_a_card_has_something_to_do_are_recorded():
    names = ("gelu", "gemm", "top_k")
    found = [(p, state) for p in map(load_problem, names) for state in states_of(p)]
    skills = load_library(Path("/nonexistent")).skills
    place = Place(device="cpu", index=None, target="sm90")

    def worth(card, **more):
        states = [state for _, state in found]
        needs = needs_of([skills[card]], states, place, each=2, every=True, **more)
        return [(p.name, s.name) for p, s in worth_recording(needs, found, place.target)]

    assert worth("fuse-launches") == [("gelu", "two_kernels")]
    assert ("gemm", "autotuned") in worth("keep-one-config")
    assert worth("sums-as-products") == []
    assert len(worth("bypass-l1")) == len(names)
    assert worth("bypass-l1", only=("fuse-launches",)) == []


def test_every_state_is_a_candidate_and_no_two_are_alike():
    for name in shipped_problems():
        states = states_of(load_problem(name))
        assert len({state.name for state in states}) == len(states)
        for state in states:
            assert read_source(state.source).launched, f"{name}, {state.name}"


def test_states_of_a_session_are_those_it_kept():
    bundle = Path(__file__).parent.parent / "sessions" / "offline-linear_relu_div.bundle"
    plain = states_of(load_problem("linear_relu_div"))
    kept = kept_in([bundle])
    more = states_of(load_problem("linear_relu_div"), kept)
    assert [state.name for state in more[len(plain) :]] == ["offline-linear_relu_div v1"]
    assert states_of(load_problem("gelu"), kept) == states_of(load_problem("gelu"))


def test_the_ratio_is_that_of_the_pairs():
    assert trial(1.5).ratio == 1.5
    pairs = Speed(kind=Kind.MEASURED, ratio=1.3, low=1.2, high=1.4, confidence=0.99, pairs=14)
    assert trial(1.5, device="NVIDIA H200", speed=pairs).ratio == 1.3


def test_a_line_cut_off_by_a_machines_end_is_left_out(tmp_path):
    file = tmp_path / "trials.jsonl"
    keep(file, trial(1.5))
    keep(file, trial(0.5))
    file.write_bytes(file.read_bytes()[:-20])
    assert [one.ratio for one in read_trials(file)] == [1.5]


def test_a_line_that_is_no_trial_is_named(tmp_path):
    file = tmp_path / "trials.jsonl"
    keep(file, trial(1.5))
    with file.open("ab") as lines:
        lines.write(b'{"card": 5}\n')
    with pytest.raises(WorkbenchError, match="no trial") as caught:
        read_trials(file)
    assert "line 2" in str(caught.value)


@pytest.mark.parametrize(
    ("made", "says_something"),
    [
        (trial(1.5), True),
        (trial(0.8), True),
        (trial(1.0), False),
        (trial(1.5, problem="rmsnorm", family="normalization"), False),
        (trial(1.5, problem="rmsnorm", family="normalization", device="NVIDIA H200"), True),
        (trial(1.0, device="NVIDIA H200"), True),
        (trial(None, code="correctness.error-above-bound"), True),
        (trial(1.5, verdict=Verdict.UNPROVEN), False),
        (trial(None, verdict=Verdict.UNPROVEN, code="correctness.gpu-full"), False),
        (trial(None, verdict=Verdict.UNPROVEN, code="correctness.cannot-judge"), False),
        (trial(None, code="correctness.gpu-memory"), False),
        (trial(None, code="correctness.host-memory"), False),
    ],
)
def test_a_trial_is_evidence_where_it_tells_of_its_card(made, says_something):
    row = evidence_of(made)
    assert (row is not None) is says_something
    if row is not None:
        assert row.kind == made.kind
        assert row.verdict == str(made.verdict)


@pytest.mark.parametrize(
    ("made", "right"),
    [
        (trial(1.0), True),
        (trial(1.5, problem="rmsnorm", family="normalization"), True),
        (trial(None, verdict=Verdict.UNPROVEN, code="profile.cannot-trace"), True),
        (trial(1.5), False),
        (trial(1.0, device="NVIDIA H200"), False),
        (trial(None, code="correctness.error-above-bound"), False),
        (trial(None, code="compile.failed"), False),
        (trial(None, verdict=Verdict.UNPROVEN, code="correctness.cannot-judge"), False),
    ],
)
def test_what_was_right_on_the_cpu_and_no_evidence_is_a_proof(made, right):
    proof = proof_of(made)
    assert (proof is not None) is right
    assert proof is None or evidence_of(made) is None


def test_a_proof_counts_a_problem_and_changes_neither_standing_nor_evidence(tmp_path):
    mine = tmp_path / "grow-block.toml"
    text = (shipped("skills") / "grow-block.toml").read_text().partition("[[evidence]]")[0]
    mine.write_text(text)
    bare = read_card(mine)
    proofs = [proof_of(trial(1.0, sha256=name * 12, problem=name)) for name in ("gemm", "gelu")]
    assert add_proofs(mine, proofs) == 2
    assert add_proofs(mine, proofs) == 0
    proven = read_card(mine)
    assert proven.standing == bare.standing == "draft"
    assert proven.card.evidence == ()
    assert "a second problem" in counts([bare]).poor["grow-block"]
    assert "a time on a second problem" in counts([proven]).poor["grow-block"]
    assert (counts([proven]).two_problems, counts([proven]).two_problems_right) == (0, 1)


def test_a_failure_beyond_all_that_helped_becomes_a_risk():
    helped = trial(1.5, facts={"launch.waves": 4.0, "launch.elements_per_thread": 2})
    failed = trial(0.7, facts={"launch.waves": 4.0, "launch.elements_per_thread": 16})
    (risk,) = risks_of([helped, failed]).new
    assert risk.when == "launch.elements_per_thread >= 16"
    assert "0.70x on gemm" in risk.says
    assert "modeled for sm90" in risk.seen


def test_a_failure_that_nothing_tells_from_what_helped_is_no_risk():
    same = {"launch.waves": 4.0}
    assert risks_of([trial(1.5, facts=same), trial(0.7, facts=same)]).new == ()
    (risk,) = risks_of([trial(0.7)]).new
    assert risk.when == 'problem.family == "gemm"'


def test_evidence_and_risks_go_into_a_persons_card_and_only_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "workbench" / "skills"
    folder.mkdir(parents=True)
    mine = folder / "grow-block.toml"
    text = (shipped("skills") / "grow-block.toml").read_text().partition("[[evidence]]")[0]
    text = "\n".join(line for line in text.split("\n") if not line.startswith("seen"))
    mine.write_text(text)
    says = read_card(mine).card.risk[0].says
    file = tmp_path / "trials.jsonl"
    of = {"state": "a session v1"}
    for one in (trial(1.5, **of), trial(0.7, risks=(says,), **of), trial(1.0, **of), trial(2.0)):
        keep(file, one)

    done = workbench("--from", file, "--write")
    assert f"grow-block: written to {mine}: evidence 2, risks 1;" in done.stderr
    assert "grow-block on gemm, seed: left out, the state `seed` of gemm is another" in done.stderr
    card = load_library().skill("grow-block").card
    assert [row.verdict for row in card.evidence] == ["accepted", "rejected"]
    assert card.risk[0].seen.startswith("bench cards gemm, a session v1: 0.700x")
    (proof,) = card.proof
    assert (proof.problem, proof.modeled) == ("gemm", 1.0)
    assert proof.parameters == {"block": BLOCK, "value": 4096}
    assert mine.read_text().startswith(text.partition("[[risk]]")[0])

    before = mine.read_bytes()
    assert "evidence 0, risks 0; known already: 2" in workbench("--from", file, "--write").stderr
    assert mine.read_bytes() == before


def test_a_trial_of_what_is_no_more_is_left_out():
    assert not outdated(trial(1.5, problem="gelu"))
    assert "makes another kernel" in outdated(trial(1.5, problem="gelu", source=GELU))
    assert "no longer makes it" in outdated(trial(1.5, problem="gelu", kernel="another"))
    assert "another one now" in outdated(trial(1.5, problem="gelu", parent=GROWN))
    assert not outdated(trial(1.5, problem="gelu", state="a session v3"))
    assert "no edit" in outdated(trial(1.5, problem="gelu", edit="gone"))


def test_a_problem_without_a_plain_kernel_has_no_trials(tmp_path):
    file = tmp_path / "problem.py"
    file.write_text(
        "import torch\n\nclass Model(torch.nn.Module):\n    pass\n\n"
        "def get_inputs():\n    return []\n\ndef get_init_inputs():\n    return []\n"
    )
    refused = workbench(file, "--device", "cpu", expected=2)
    assert "no plain kernel" in refused.stderr


def test_kept_trials_decode_as_they_were_written(tmp_path):
    file = tmp_path / "trials.jsonl"
    made = trial(1.5, facts={"arg.dtypes": ("float32",)})
    keep(file, made)
    assert read_trials(file) == [made]
    assert msgspec.json.decode(file.read_bytes().strip(), type=Trial) == made


@pytest.mark.parametrize("share", ["0/4", "5/4", "2", "a/4", "1/", "-1/4"])
def test_what_is_no_share_is_told(share):
    done = workbench("gelu", "--part", share, expected=2)
    assert f"`--part {share}` is not a share" in done.stderr


def test_shares_of_several_gpus_cover_everything_once():
    wanted = [f"candidate {number}" for number in range(11)]
    shares = [shared(wanted, (mine, 4)) for mine in (1, 2, 3, 4)]
    assert sorted(one for share in shares for one in share) == sorted(wanted)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_states_are_made_for_cards_that_there_are():
    cards = set(load_library().skills)
    for name in shipped_problems():
        for state in states_of(load_problem(name)):
            assert set(state.cards) <= cards, state.name
