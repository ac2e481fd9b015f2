"""The texts of every slot, from whole to shortest; only these reach a model."""

from collections.abc import Iterator, Sequence

from workbench.agents.allowed import AllowedSkill
from workbench.agents.memory import Attempt
from workbench.agents.prompts import shortened
from workbench.agents.roles.features import facts_text, policy_text, time_text
from workbench.agents.roles.reviewer import cleaned
from workbench.agents.situation import Situation
from workbench.gate.policy.names import Group, allowed
from workbench.gate.policy.refusals import REFUSALS
from workbench.problems.records import Precision, Problem
from workbench.skills.library import Library
from workbench.skills.records import Card, Check, Effect

_PROMISE = {
    Precision.IEEE: "The reference computes fp32 products in full fp32: `tl.dot` of fp32 operands"
    ' needs `input_precision="ieee"` (or "tf32x3"); TF32 or half precision is too coarse.',
    Precision.TF32: "The reference allows fp32 products to be rounded to TF32:"
    ' `input_precision="tf32"` is within its promise; half precision is not.',
}


HINT = 2000
"""Characters of a hint, or of a veto's reason, that a prompt holds; ours."""
_ATTEMPT = 700
"""Characters of one attempt in the history; ours: a plan of four sentences with its outcome."""


def shared_slots(library: Library, chosen: Sequence[str] = ()) -> dict[str, tuple[str, ...]]:
    """What all prompts begin with. The library's short form keeps only cards that may be chosen."""
    cards = [skill.card for skill in library.skills.values()]
    kept = [card for card in cards if card.id in chosen]
    return {
        "rules": (rules_text(),),
        "library": (
            "\n\n".join(_card(card) for card in cards),
            "\n".join(f"{card.id}: {card.title}. {card.intent}" for card in cards),
            "\n\n".join(_card(card) for card in kept) or "(left out)",
        ),
    }


def situation_slots(situation: Situation) -> dict[str, tuple[str, ...]]:
    """What is known of the incumbent and of the session."""
    state = situation.state
    chosen = [skill.id for skill in situation.allowed]
    attempts = situation.memory.attempts
    speed = situation.versus_seed
    times = [f"time: {time_text(state.time)}"]
    times += [f"reference: {time_text(situation.reference)}"] if situation.reference else []
    times += [f"{speed.says()} against the seed"] if speed else []
    return {
        **shared_slots(state.library, chosen),
        "problem": (problem_text(situation.problem, state.target.name, state.target.device),),
        "number": (str(state.number),),
        "code": (state.source.rstrip("\n"),),
        "time": ("\n".join(times),),
        "facts": (facts_text(situation), facts_text(situation, brief=True)),
        "policy": (policy_text(situation),),
        "allowed": ("\n\n".join(_allowed(skill) for skill in situation.allowed) or "(none)",),
        "history": (
            history_text(attempts),
            history_text(attempts[-8:], len(attempts)),
            history_text(attempts[-3:], len(attempts)),
        ),
        "hints": (hints_text(situation), hints_text(situation, 6), hints_text(situation, 2)),
    }


def problem_text(problem: Problem, target: str, device: str) -> str:
    """The problem's file, its shapes, its precision promise, and the GPU."""
    shapes = [f"{s.name}: {s.values or 'as the file says'}" for s in problem.shapes]
    return "\n".join(
        [
            f"{problem.name}, on {device} ({target}).",
            _PROMISE[problem.precision],
            f"Shapes, the last one's speed counts: {'; '.join(shapes)}",
            "",
            "```python",
            problem.source.rstrip("\n"),
            "```",
        ]
    )


def rules_text() -> str:
    """The policy's refusals with what to do instead, and the names that host code may use."""
    refused = [
        f"- {r.says.format(name='it')[:1].upper()}{r.says.format(name='it')[1:]}: {r.todo}."
        for r in REFUSALS.values()
    ]
    names = allowed()
    lines = [
        *refused,
        "",
        "Host code may use these names and no others.",
        f"- modules: {' '.join(names.file.imports.names)}",
        *(_group(g, g.prefix) for g in names.file.name if g.prefix.startswith(("torch", "triton"))),
        *(_group(g, "tensor.") for g in (*names.file.method, *names.file.attribute)),
    ]
    return "\n".join(lines)


def _group(group: Group, prefix: str) -> str:
    return f"- {prefix.rstrip('.')}, {group.group}: {' '.join(group.names)}"


def _card(card: Card) -> str:
    lines = [f"{card.id}: {card.title}", f"  {card.intent}"]
    if card.anchor:
        lines.append(f"  where: {card.anchor}")
    lines += [f"  sound when {p.says} ({p.when})" for p in card.precondition]
    effects = ", ".join(_effect(e) for e in card.effect)
    if effects:
        lines.append(f"  effect: {effects}")
    lines += [f"  risk: {r.says}" for r in card.risk]
    if card.carrier.sketch.strip():
        lines += [f"  | {line}" for line in card.carrier.sketch.strip("\n").split("\n")]
    return "\n".join(lines)


def _effect(effect: Effect) -> str:
    ends = " to ".join(f"{end:g}x" for end in (effect.low, effect.high) if end is not None)
    return f"{effect.metric} {effect.direction} {ends}".strip()


def _allowed(skill: AllowedSkill) -> str:
    kind = "" if skill.card else " (a method without a card)"
    lines = [f"{skill.id} on {skill.kernel}{kind}: {skill.title}", f"  {skill.intent}"]
    lines += [_check("condition", check) for check in skill.checks]
    lines += [_check("risk", risk) for risk in skill.risks if risk.truth.value != "no"]
    return "\n".join(lines)


def _check(label: str, check: Check) -> str:
    return f"  {label} {check.truth}: {check.says} [{check.because}]"


def history_text(attempts: Sequence[Attempt], total: int | None = None) -> str:
    """A line for each attempt; says how many older ones were left out."""
    lines = list(_history(attempts))
    left_out = 0 if total is None else total - len(attempts)
    if left_out > 0:
        lines.insert(0, f"({left_out} older attempts are left out)")
    return "\n".join(lines) or "nothing yet"


def _history(attempts: Sequence[Attempt]) -> Iterator[str]:
    for attempt in attempts:
        yield cleaned(f"- {_one_line(attempt.says(), _ATTEMPT)}")


def _one_line(text: str, limit: int) -> str:
    """A text of somebody else's as one line: it cannot begin a part of the prompt of its own."""
    return " ".join(shortened(text, limit).split())


def hints_text(situation: Situation, newest: int | None = None) -> str:
    """A person's hints and the reasons of their vetoes; of each the newest, where it is said how
    many."""
    hints, vetoes = list(situation.hints), list(situation.memory.vetoes())
    left_out = 0
    if newest is not None:
        left_out = max(0, len(hints) - newest) + max(0, len(vetoes) - newest)
        hints, vetoes = hints[-newest:], vetoes[-newest:]
    lines = [f"({left_out} older ones are left out)"] if left_out else []
    lines += [f"- {_one_line(hint, HINT)}" for hint in hints]
    lines += [f"- v{a.number} was vetoed: {_one_line(a.veto, HINT)}" for a in vetoes]
    return cleaned("\n".join(lines)) or "nothing was said"
