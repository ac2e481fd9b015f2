"""A whole roundtrip in which a model carries a sketch out: real gate, scripted endpoint."""

import json
import re

from engine_parts import report
from idea_parts import named, new_store
from model_server import Answer, ModelServer, Request

from workbench.bench.roundtrip_group import Ask
from workbench.bench.roundtrip_run import run_trials
from workbench.engine.walks import write_chain
from workbench.lineage.induce import card_text, induce
from workbench.lineage.instances import by_mechanism, instances
from workbench.lineage.records import Attempt, Ended, Expert, Termination
from workbench.problems.load import load_problem
from workbench.session.reader import SessionReader

NAIVE = load_problem("gelu").seed.read_text()
EXPERT = NAIVE.replace("BLOCK=256", "BLOCK=1024").replace(
    "x = tl.load(x_ptr + places, mask=places < N, other=0.0)",
    "x = tl.load(x_ptr + places, mask=places < N, other=0.0, eviction_policy='evict_first')",
)


def lineage(folder):
    """A lineage of one step, which a model took out and put back."""
    store = new_store(folder, "gelu")
    # Slow enough that the real gate's modeled time of the same kernel reaches it.
    slow = report(microseconds=1e6)
    step = Attempt(
        state=0,
        category="streamed-tiles",
        locus="the load",
        kernel="gelu_kernel",
        says="one large tile a program, read once",
        edit="",
        by="scripted-1",
        source=NAIVE,
        predecessor=report(microseconds=2e6),
        forward=EXPERT,
        same_text=True,
        ratio=1.0,
        accepted=True,
    )
    end = Ended(how=Termination.COMPLETE, says="nothing more")
    write_chain(store, [Expert(source=EXPERT, origin="expert.py", report=slow), step, end])
    return store


def asked(lineage_folder, cards, sessions):
    return Ask(
        lineages=(lineage_folder,),
        cards=cards,
        trials=1,
        steps=1,
        forms=("whole",),
        leap=False,
        jobs=1,
        seconds=None,
        gpu_seconds=None,
        device="cpu",
        target="sm90",
        sessions=sessions,
        proposer="both",
    )


def answer(request: Request, _number: int) -> Answer:
    prompt = request.prompt
    if "Choose exactly one skill" not in prompt:
        return Answer(text=f"```python\n{EXPERT}\n```")
    offered = prompt.partition("# Skills that you may choose from\n\n")[2]
    held = [
        line.split()[1].rstrip(":") for line in prompt.split("\n") if line.startswith("  yes: ")
    ]
    headroom = re.search(r"headroom\W+(?:is )?(high|medium|low)", prompt)
    form = {
        "skill": offered.split()[0],
        "kernel": "gelu_kernel",
        "bottleneck": prompt.partition("\n  bottleneck ")[2].split()[0].rstrip(":"),
        "modification": "larger tiles, and a hint that what was read is not needed again",
        "evidence": [{"fact": "launch.num_warps", "value": 4}],
        "statement": held[0] if held else "",
        "ruled_out": {"bottleneck": "divergence", "fact": "launch.num_warps", "value": 4},
        "expected": [
            {"metric": "time", "direction": "down"},
            {"metric": "loads", "direction": "same"},
        ],
        "must_not_worsen": ["static.spills"],
        "headroom": headroom[1] if headroom else "high",
        "earlier": None,
        "difference": "",
    }
    return Answer(text=f"```json\n{json.dumps(form)}\n```")


def test_a_roundtrip_lets_a_model_carry_out_what_no_edit_does(own_home, monkeypatch, tmp_path):
    named(own_home, monkeypatch)
    store = lineage(tmp_path / "model-lineage")
    groups = by_mechanism(list(instances([SessionReader(store.folder)])))
    card = induce("", groups["sketch streamed-tiles"]).card
    cards = tmp_path / "cards"
    cards.mkdir()
    (cards / f"{card.id}.toml").write_text(card_text(card))
    with ModelServer(answer) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        found = list(
            run_trials(asked(store.folder, cards, tmp_path / "sessions"), lambda _event: None)
        )
    cut, whole = found
    assert (cut.state, cut.steps) == ("cut", 1)
    assert (whole.state, whole.reached, whole.steps) == ("ended", True, 1), whole.why
    (session,) = (tmp_path / "sessions").iterdir()
    step = SessionReader(session).transition(1)
    assert step.plan.card == card.id
    assert step.cost.usd > 0
    sketch = card.carrier.sketch.splitlines()
    assert all(line in server.requests[-1].prompt for line in sketch)
