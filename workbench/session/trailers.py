"""The words of a transition's commit: one plain line, what and why, then lines for programs.

The trailers repeat, lossily, what `transition.toml` holds exactly, so that `git log` alone shows
the story and a lineage of thousands of versions is listed from commit messages in one git call.
"""

import re
import textwrap
from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from workbench.errors import WorkbenchError
from workbench.gate.records import Stage, Verdict
from workbench.measure.records import Kind, Speed, Time
from workbench.session.records import Answer, Cost, RungVisit, Transition
from workbench.skills.records import Plan

_WIDTH = 76
_TITLE = 120
"""Longest title kept in a trailer and a subject; the whole one is in `transition.toml`."""


class Summary(Struct, frozen=True, kw_only=True):
    """One version as its commit message describes it: enough for a row of the lineage."""

    number: int
    parent: int | None
    commit: str
    subject: str
    title: str
    card: str
    """Empty when no card was used."""
    verdict: Verdict
    stage: Stage
    """Where the gate ended."""
    code: str
    """Code of the decisive finding; empty when accepted."""
    rung: int
    speed: Speed | None
    """Against the parent; three decimals, without confidence and pairs."""
    versus_seed: Speed | None
    """Likewise, where it was measured so."""
    versus_reference: Speed | None
    time: Time | None
    """Time of the candidate, without samples, device and detail."""
    answer: Answer
    by: str
    """`gate`, `person` or `nobody`."""
    cost: Cost
    authored: str
    """When the transition was made, ISO 8601."""
    ladder: str = ""
    """`static promote, smoke prune`; empty where there was no ladder."""


def message(transition: Transition) -> str:
    """The commit message of a transition; the same transition always gives the same text."""
    paragraphs = [subject(transition), *_body(transition), _trailers(transition)]
    return "\n\n".join(paragraphs) + "\n"


def subject(transition: Transition) -> str:
    """The subject of a commit: `row-on-chip on softmax_kernel: 1.32x against v3, accepted`."""
    plan, gate = transition.plan, transition.gate
    what = title(transition)
    if plan is not None and plan.card:
        what = plain(f"{plan.card} on {plan.kernel}" if plan.kernel else plan.card)
    if transition.parent is None:
        what = f"seed, {what}"
    result = _result(transition)
    if gate.speed is not None:
        result = f"{gate.speed.ratio:.2f}x against v{transition.parent}, {result}"
    return f"{what}: {result}"


def title(transition: Transition) -> str:
    """The plan's title, else where the source came from."""
    plan = transition.plan
    text = (plan.title or plan.card) if plan is not None else ""
    if plan is not None and text:
        text += _what_changed(plan)
    return plain(text or transition.origin or "kernel")[:_TITLE].rstrip()


_SPEAK_FOR_THEMSELVES = ("value", "block", "tile", "edit")
"""Parameters whose value says what it is without their name."""


def _what_changed(plan: Plan) -> str:
    """The parameters that were not so before: `: 128x64, num_stages 3`; empty without any."""
    parts = [
        str(value) if name in _SPEAK_FOR_THEMSELVES else f"{name} {value}"
        for name, value in plan.parameters.items()
        if plan.was.get(name) != value or len(plan.parameters) == 1
    ]
    return f": {', '.join(parts)}" if parts else ""


def _result(transition: Transition) -> str:
    gate = transition.gate
    match transition.decision.answer:
        case Answer.ACCEPTED:
            return "accepted"
        case Answer.VETOED:
            return "vetoed"
        case Answer.PENDING:
            return "waits for a decision"
        case Answer.REJECTED if gate.verdict is Verdict.UNPROVEN:
            return f"unproven at {gate.stage}"
    return f"rejected at {gate.stage}"


def _body(transition: Transition) -> list[str]:
    plan, decision = transition.plan, transition.decision
    sentences: list[str] = []
    if plan is not None:
        values = ", ".join(f"{name} = {value}" for name, value in plan.parameters.items())
        sentences += [plan.title + (f" ({values})" if values else ""), plan.intent, plan.reason]
    elif transition.origin:
        sentences.append(f"From: {transition.origin}")
    told = [_sentence(text) for text in sentences if text.strip()]
    said = _sentence(f"Gate: {transition.gate.says}") if transition.gate.says.strip() else ""
    why = decision.reason.strip()
    repeated = decision.by == "gate" and why == transition.gate.says.strip()
    answered = _sentence(f"{decision.by.capitalize()}: {why}") if why and not repeated else ""
    return [textwrap.fill(text, _WIDTH) for text in (" ".join(told), said, answered) if text]


def _sentence(text: str) -> str:
    text = plain(text)
    return text if text.endswith((".", "!", "?")) else text + "."


def _trailers(transition: Transition) -> str:
    plan, gate, decision = transition.plan, transition.gate, transition.decision
    cost = rounded(transition.cost)
    rows = {
        "Transition": str(transition.number),
        "Parent-Transition": "" if transition.parent is None else str(transition.parent),
        "Title": title(transition),
        "Verdict": gate.verdict.value,
        "Stage": gate.stage.value,
        "Code": gate.code,
        "Skill": plan.card if plan is not None else "",
        "Rung": str(gate.rung),
        "Ladder": ladder_says(transition.rungs),
        "Speedup": _speed_says(gate.speed),
        "Versus-Seed": _speed_says(gate.versus_seed),
        "Versus-Reference": _speed_says(gate.versus_reference),
        "Time-Us": _time_says(gate.time),
        "GPU": gate.gpu,
        "Cost-USD": _number(cost.usd),
        "GPU-Seconds": _number(cost.gpu_seconds),
        "Wall-Seconds": _number(cost.wall_seconds),
        "Ahead-Seconds": _number(cost.ahead_seconds) if cost.ahead_seconds else "",
        "Decision": f"{decision.answer.value} by {decision.by}",
    }
    kept = {key: plain(value) for key, value in rows.items()}
    return "\n".join(f"{key}: {value}" for key, value in kept.items() if value)


def ladder_says(rungs: Sequence[RungVisit]) -> str:
    """What became of it at each rung, in a line."""
    return ", ".join(
        f"{visit.rung} {visit.action if visit.asked else 'left out'}" for visit in rungs
    )


def _speed_says(speed: Speed | None) -> str:
    return "" if speed is None else speed.says()


def _time_says(time: Time | None) -> str:
    if time is None:
        return ""
    low_high = (
        "" if time.low is None or time.high is None else f" [{time.low:.3f}, {time.high:.3f}]"
    )
    return f"{time.microseconds:.3f}{low_high} {time.kind}"


def rounded(cost: Cost) -> Cost:
    """A cost as a trailer states it: milliseconds, and millionths of a dollar."""
    return Cost(
        usd=round(cost.usd, 6),
        gpu_seconds=round(cost.gpu_seconds, 3),
        wall_seconds=round(cost.wall_seconds, 3),
        ahead_seconds=round(cost.ahead_seconds, 3),
    )


def _number(value: float) -> str:
    """Shortest text that reads back as the same number."""
    return repr(float(value)).removesuffix(".0")


def plain(text: str) -> str:
    """One line without control characters: a model's text cannot add trailers or colours."""
    if text.isprintable():  # then it holds no surrogate either
        return " ".join(text.split())
    kept = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(kept.encode("utf-8", "backslashreplace").decode().split())


_NUMBER = r"(-?(?:[\d.]+(?:e[+-]?\d+)?|inf|nan))"
_RATIO = re.compile(rf"{_NUMBER}(?: \[{_NUMBER}, {_NUMBER}\])? (exact|modeled|measured)")


def parse(text: str, *, commit: str, authored: str, where: str) -> Summary:
    """A commit message back to a summary; WorkbenchError when it is none of ours."""
    rows = _parse_rows(text)
    try:
        answer, _, by = rows["Decision"].partition(" by ")
        parent = rows.get("Parent-Transition")
        return Summary(
            number=int(rows["Transition"]),
            parent=None if parent is None else int(parent),
            commit=commit,
            subject=plain(text.partition("\n")[0]),
            title=rows.get("Title", ""),
            card=rows.get("Skill", ""),
            verdict=Verdict(rows["Verdict"]),
            stage=Stage(rows["Stage"]),
            code=rows.get("Code", ""),
            rung=int(rows["Rung"]),
            speed=_parse_speed(rows.get("Speedup")),
            versus_seed=_parse_speed(rows.get("Versus-Seed")),
            versus_reference=_parse_speed(rows.get("Versus-Reference")),
            time=_parse_time(rows.get("Time-Us")),
            answer=Answer(answer),
            by=by,
            cost=Cost(
                usd=float(rows.get("Cost-USD", "0")),
                gpu_seconds=float(rows.get("GPU-Seconds", "0")),
                wall_seconds=float(rows.get("Wall-Seconds", "0")),
                ahead_seconds=float(rows.get("Ahead-Seconds", "0")),
            ),
            authored=authored,
            ladder=rows.get("Ladder", ""),
        )
    except (KeyError, ValueError) as fault:
        what = f"its trailer {fault} is missing" if isinstance(fault, KeyError) else str(fault)
        raise WorkbenchError(
            f"commit {commit[:10]} is not a transition of the workbench: {what}",
            where=where,
            todo="if you made it by hand, keep it on a branch of your own (`git branch mine`)",
        ) from fault


def _parse_rows(text: str) -> dict[str, str]:
    """The last paragraph, `Key: value` a line; a key said twice counts once, the first time."""
    rows: dict[str, str] = {}
    for line in text.rstrip("\n").rpartition("\n\n")[2].split("\n"):
        key, colon, value = line.partition(": ")
        if colon:
            rows.setdefault(key, plain(value))
    return rows


def row_of(text: str, key: str) -> str:
    """One trailer of a commit message; empty where it has none of that name."""
    return _parse_rows(text).get(key, "")


def _parse_ratio(text: str) -> tuple[float, float | None, float | None, Kind]:
    found = _RATIO.fullmatch(text)
    if not found:
        raise ValueError(f"{text!r} is not a number with its kind")
    low, high = (None if bound is None else float(bound) for bound in found.groups()[1:3])
    return float(found[1]), low, high, Kind(found[4])


def _parse_speed(text: str | None) -> Speed | None:
    if text is None:
        return None
    ratio, low, high, kind = _parse_ratio(text)
    return Speed(kind=kind, ratio=ratio, low=low, high=high)


def _parse_time(text: str | None) -> Time | None:
    if text is None:
        return None
    microseconds, low, high, kind = _parse_ratio(text)
    return Time(kind=kind, microseconds=microseconds, low=low, high=high)


def unix_seconds(iso: str, otherwise: int) -> int:
    """An ISO 8601 moment as git stores it; `otherwise` when it is no such text."""
    try:
        moment = datetime.fromisoformat(iso)
    except ValueError:
        return otherwise
    seconds = int(moment.timestamp()) if moment.tzinfo else otherwise
    return seconds if seconds > 0 else otherwise
