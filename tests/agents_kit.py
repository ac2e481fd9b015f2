"""A situation as a session has it, and replies that a good model would give to it."""

import json
from pathlib import Path

from fact_kit import softmax_launch, softmax_trace
from kernel_texts import SEEDS

from workbench.agents.memory import Memory, remember
from workbench.agents.records import Ending, Reply, Role, Usage
from workbench.agents.roles.diagnoser import Refused
from workbench.agents.roles.features import value_text
from workbench.agents.situation import Situation, situation_of
from workbench.gate.records import Finding, GateReport, Outcome, Stage, StageReport, Verdict
from workbench.kernels.source import normalized_sha256
from workbench.kernels.target import target
from workbench.measure.records import Kind, Speed, Time
from workbench.problems.load import load_problem
from workbench.search.records import ProposerState, Tried
from workbench.session.records import Answer, Cost, Decision, Transition
from workbench.skills.library import load_library
from workbench.skills.records import Plan

SEED = SEEDS["softmax"]
BETTER = SEED.replace("BLOCK=1024", "BLOCK=2048")


def situation(
    folder: Path, *, memory: Memory | None = None, hints: tuple[str, ...] = (), source: str = SEED
) -> Situation:
    """Softmax at its full shape, with a modeled time, and only the shipped cards."""
    seed = Tried(number=0, parent=None, sha256=normalized_sha256(SEED), accepted=True)
    time = Time(
        kind=Kind.MODELED, microseconds=1500, device="sm90", detail={"dram": 1200.0, "fp32": 300.0}
    )
    state = ProposerState(
        source=source,
        number=0,
        library=load_library(folder / "no own cards"),
        target=target("sm90"),
        launches=(softmax_launch(),),
        traces=(softmax_trace(),),
        time=time,
        family="normalization",
        precision="ieee",
        flops=2e9,
        bytes=3.2e9,
        history=(seed,),
    )
    if memory is None:
        memory = remember([transition(0)], {0: normalized_sha256(SEED)})
    return situation_of(load_problem("softmax"), state, memory, hints=hints)


def gate(
    verdict: Verdict = Verdict.ACCEPTED, stage: Stage = Stage.PROFILE, **finding
) -> GateReport:
    accepted = verdict is Verdict.ACCEPTED
    found = Finding(
        **{
            "code": f"{stage}.fault",
            "says": "NameError: name 'cols' is not defined",
            "line": 12,
            **finding,
        }
    )
    report = StageReport(
        stage=stage,
        outcome=Outcome.PASSED if accepted else Outcome.FAILED,
        says="fine" if accepted else found.says,
        findings=() if accepted else (found,),
    )
    return GateReport(
        verdict=verdict,
        stage=stage,
        code="" if accepted else found.code,
        says=report.says,
        stages=(report,),
        rung=1,
        kernel_sha256="0" * 64,
        target="sm90",
        device="cpu",
        speed=Speed(kind=Kind.MODELED, ratio=1.2) if accepted else None,
    )


def transition(
    number: int,
    *,
    parent: int | None = None,
    plan: Plan | None = None,
    report: GateReport | None = None,
    answer: Answer | None = None,
    reason: str = "",
) -> Transition:
    report = report or gate()
    decided = Answer.ACCEPTED if report.verdict is Verdict.ACCEPTED else Answer.REJECTED
    return Transition(
        number=number,
        parent=parent,
        plan=plan,
        gate=report,
        decision=Decision(
            answer=answer or decided, by="person" if answer else "gate", reason=reason
        ),
        cost=Cost(),
        created="2026-11-29T10:00:00+00:00",
        origin="shipped seed" if plan is None else "model scripted-1",
    )


def model_plan(**changes) -> Plan:
    return Plan(
        **{
            "card": "online-softmax",
            "title": "Maximum and sum in one pass",
            "intent": "fold the maximum and the sum into one loop over the row",
            "kernel": "softmax_kernel",
            "method": "online-softmax",
            **changes,
        }
    )


def plan_reply(now: Situation, **changes) -> str:
    """What a planner that reads its prompt answers."""
    one = now.considered[0]
    facts = now.facts(one.kernel)
    numbers = [n for n, v in facts.items() if isinstance(v, int | float) and v is not True]
    fact = next(n for n in numbers if n.startswith("launch."))
    held = [c.says.partition(":")[0] for c in one.record.predicates if c.truth == "yes"]
    form = {
        "skill": now.allowed[0].id,
        "kernel": one.kernel,
        "bottleneck": one.record.bottleneck,
        "modification": "fold the maximum and the sum into one loop over the row",
        "evidence": [{"fact": fact, "value": shown(facts[fact])}],
        "statement": held[0] if held else "",
        "ruled_out": {"bottleneck": "divergence", "fact": fact, "value": shown(facts[fact])},
        "expected": [
            {"metric": "loads", "direction": "down"},
            {"metric": "time", "direction": "down"},
        ],
        "must_not_worsen": ["static.spills"],
        "headroom": one.record.headroom,
        "earlier": None,
        "difference": "",
    }
    return f"```json\n{json.dumps({**form, **changes}, indent=1)}\n```\n"


def shown(value):
    """A number as the prompt shows it."""
    text = value_text(value)
    try:
        return float(text)
    except ValueError:
        return text


def said(text: str, ending: Ending = Ending.COMPLETE) -> Reply:
    return Reply(ending=ending, text=text, usage=Usage(), says="I would rather not")


class Answers:
    """Stands where a model is asked: replies by role in order; keeps the prompts."""

    def __init__(self, **replies) -> None:
        self._replies = {Role(role): list(texts) for role, texts in replies.items()}
        self.prompts: list = []

    def room(self, _role: Role) -> int:
        return 100_000

    def shrink(self) -> bool:
        return False

    def __call__(self, role: Role, turn: int, prompt) -> Reply:
        self.prompts.append((role, turn, prompt))
        reply = self._replies[role].pop(0)
        return reply if isinstance(reply, Reply) else said(reply)


def bad(stage: Stage = Stage.CORRECTNESS, **finding):
    return gate(Verdict.REJECTED, stage, **finding)


def refused(source: str = BETTER, **finding) -> Refused:
    return Refused(number=1, source=source, gate=bad(**finding), plan=model_plan())


def diagnosis(**changes) -> str:
    form = {
        "critical_issue": "cols is not defined",
        "evidence": ["name 'cols' is not defined"],
        "root_cause": "the loop variable was renamed",
        "trigger_condition": "always",
        "must_hold_invariants": ["masks stay"],
        "minimal_fix": "use offsets instead",
        "patch_anchor": "BLOCK=2048",
    }
    return json.dumps({**form, **changes})
