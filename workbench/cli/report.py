"""A session in plain text: status, lineage, one version, and the report at the end of a run."""

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.cli.profiles import limit_lines
from workbench.engine.budget import left
from workbench.engine.funnel import funnel
from workbench.engine.goal import goal_of
from workbench.engine.telling import stage_line
from workbench.engine.view import Snapshot, State, Talk, Version, in_steps, unwritten_lines
from workbench.engine.visible import visible
from workbench.errors import WorkbenchError
from workbench.gate.records import GateReport, Verdict
from workbench.kernels.target import TARGETS
from workbench.lineage.lanes import draw
from workbench.measure.baselines import Baselines
from workbench.measure.records import Kind, Speed, Time
from workbench.session.names import spoken
from workbench.session.records import Answer, BackwardStep, Transition
from workbench.skills.records import Check, Plan, Truth

if TYPE_CHECKING:
    from workbench.engine.client import SessionClient

_RANKED = 5
"""Cards of a plan's ranking that are shown; `--json` has all."""
_MARK = {Truth.YES: "yes", Truth.NO: "NO ", Truth.UNKNOWN: "?  "}
_RISK_MARK = {Truth.YES: "YES", Truth.NO: "no ", Truth.UNKNOWN: "?  "}
"""Capitals stand for what speaks against the step."""


def status_text(snapshot: Snapshot) -> str:
    """What the session is doing, what it reached and what it spent."""
    best = _version(snapshot, snapshot.best)
    lines = [
        f"session   {snapshot.name}  ({snapshot.path})",
        f"problem   {snapshot.problem} on {snapshot.device}, target {snapshot.target}",
        *_lineage(snapshot),
        f"state     {snapshot.state}{': ' + snapshot.says if snapshot.says else ''}",
        f"mode      {snapshot.mode}",
        *_size(snapshot),
        f"versions  {len(snapshot.versions)}, {_kept(snapshot)} accepted",
        *(f"unread    {says}" for says in snapshot.unread),
        f"rungs     {' > '.join(f'{rung.name} {rung.count}' for rung in funnel(snapshot))}",
        f"best      {version_line(best) if best else 'none yet'}",
        *_bar(snapshot.baselines),
        *_goal(snapshot, best),
        f"spent     {_spent(snapshot)}",
        f"left      {left(snapshot.budget, snapshot.steps, snapshot.spent)}",
    ]
    if snapshot.pending is not None:
        how = f"workbench review {spoken(Path(snapshot.path))}"
        lines.append(f"waiting   v{snapshot.pending} wants your decision: {how}")
    return "\n".join(lines)


def thoughts_text(talk: Talk | None) -> str:
    """What the model that is asked, or was asked last, thought and said; the end of both."""
    if talk is None:
        return "no model was asked in this session so far"
    parts = [f"{talk.role}, {talk.model}, asked for v{talk.number}: {talk.says}"]
    parts += [f"\nthinks\n{talk.reasoning}"] if talk.reasoning else []
    parts += [f"\nsays\n{talk.text}"] if talk.text else []
    return visible("\n".join(parts))


def _lineage(snapshot: Snapshot) -> list[str]:
    """Lines about a lineage: that it is one, and how to see or continue its walk."""
    if snapshot.kind != "lineage":
        return []
    if snapshot.unwritten:
        return [f"lineage   {line}" for line in unwritten_lines(snapshot)]
    if not snapshot.versions:
        name = spoken(Path(snapshot.path))
        return [f"lineage   its walk has not ended: workbench learn --session {name}"]
    steps = [v for v in snapshot.versions if v.answer is Answer.ACCEPTED]
    failed = len(snapshot.versions) - len(steps)
    words = (
        f"{len(steps) - 1} mechanisms from {snapshot.bottom} to expert, {failed} that would not "
        "come out"
    )
    return [f"lineage   {words}; card v1 shows one"]


def _size(snapshot: Snapshot) -> list[str]:
    if not snapshot.size:
        return []
    return [
        f"size      {snapshot.size}: smaller than the problem file's own, for want of a GPU;",
        "          every time and speed holds there, and the kernel is made for it",
    ]


def _bar(baselines: Baselines | None) -> list[str]:
    """What there is to beat: nothing where it was not timed."""
    return [] if baselines is None else [f"to beat   {baselines.words()}"]


def _goal(snapshot: Snapshot, best: Version | None) -> list[str]:
    goal = goal_of(snapshot.budget)
    if goal is None:
        return []
    there = best is not None and goal.reached(best.time, best.speed_vs_seed)
    return [f"goal      {goal.words()}, {'reached' if there else 'not reached'}"]


def _spent(snapshot: Snapshot) -> str:
    cost = snapshot.spent
    parts = [in_steps(snapshot.steps), f"{cost.wall_seconds:.0f} s of work"]
    if cost.gpu_seconds:
        told = ", ".join(f"{name} {used:.1f}" for name, used in snapshot.gpu_seconds.items())
        parts.append(f"{cost.gpu_seconds:.1f} GPU-s" + (f" ({told})" if told else ""))
    if cost.usd:
        parts.append(f"${cost.usd:.2f}")
    return ", ".join(parts)


def _kept(snapshot: Snapshot) -> int:
    return sum(1 for v in snapshot.versions if v.answer is Answer.ACCEPTED)


def _version(snapshot: Snapshot, number: int | None) -> Version | None:
    return next((v for v in snapshot.versions if v.number == number), None)


_SPEED_WIDTH, _TITLE_WIDTH, _LONGEST_TITLE = 18, 44, 80
"""Characters. Columns of a list are as wide as what stands in them; a longer title takes its own
row out of line."""


def version_line(version: Version, widths: tuple[int, int] = (_SPEED_WIDTH, _TITLE_WIDTH)) -> str:
    """`v5  1.97x modeled  tile 128 x 64                 accepted, best`."""
    speed, title = widths
    return (
        f"v{version.number:<4} {_speed_or_time(version):<{speed}} {version.title:<{title}}"
        f" {outcome_words(version)}"
    )


def widths(versions: Iterable[Version]) -> tuple[int, int]:
    """Of the columns in which all these versions stand in line: speed or time, and title."""
    speed, title = _SPEED_WIDTH, _TITLE_WIDTH
    for version in versions:
        speed = max(speed, len(_speed_or_time(version)))
        if len(version.title) <= _LONGEST_TITLE:
            title = max(title, len(version.title))
    return speed, title


def _speed_or_time(version: Version) -> str:
    if version.speed_vs_seed is None and version.time is not None:
        return f"{version.time.microseconds:.1f} us {version.time.kind}"
    return speed_words(version.speed_vs_seed)


def speed_words(speed: Speed | None) -> str:
    """`1.97x modeled`, or `-` when it was not timed."""
    return "-" if speed is None else f"{speed.ratio:.2f}x {speed.kind}"


def outcome_words(version: Version) -> str:
    """What became of it: `accepted, best`, `rejected at correctness: error-above-bound`."""
    if version.answer is Answer.ACCEPTED:
        return "accepted, best" if version.best else "accepted"
    if version.answer is Answer.PENDING:
        return "waits for your decision"
    if version.undone:
        return "undone"
    if version.answer is Answer.VETOED:
        return "vetoed"
    word = "unproven" if version.verdict is Verdict.UNPROVEN else "rejected"
    reason = version.code.partition(".")[2] or version.code
    return f"{word} at {version.stage}: {reason}"


def graph_text(snapshot: Snapshot, *, ascii_only: bool = False) -> str:
    """The lineage, newest first, one row a version."""
    if not snapshot.versions:
        return "\n".join(["no version yet", *unwritten_lines(snapshot)])
    rows = draw(snapshot.versions, ascii_only=ascii_only)
    by_number = {v.number: v for v in snapshot.versions}
    width = max(len(cells) for _, cells in rows)
    columns = widths(snapshot.versions)
    return "\n".join(
        f"{cells:<{width}} {version_line(by_number[number], columns)}".rstrip()
        for number, cells in rows
    )


def card_text(transition: Transition) -> str:
    """One version: plan, conditions with their answers, gate, times, decision."""
    lines = [f"v{transition.number}  {_title(transition)}"]
    plan = transition.plan
    if plan is not None:
        if plan.card:
            lines.append(f"  card      {plan.card}: workbench skills show {plan.card}")
        lines += [f"  intent    {plan.intent}", f"  kernel    {plan.kernel}"]
        if plan.parameters:
            values = ", ".join(f"{k}={v}" for k, v in plan.parameters.items())
            lines.append(f"  edit      {plan.edit} ({values})")
        lines.append(f"  reason    {plan.reason}")
        lines += [f"  expected  {plan.expected}"] if plan.expected else []
        lines += [_check("condition", check, _MARK) for check in plan.checks]
        lines += [_check("risk     ", risk, _RISK_MARK) for risk in plan.risks]
        lines += _policy(plan)
    if transition.backward is not None:
        lines += _backward(transition.backward)
    lines += [f"  gate      {stage_line(report)}" for report in transition.gate.stages]
    for report in transition.gate.stages:
        for finding in report.findings:
            where = f" line {finding.line}" if finding.line is not None else ""
            lines.append(f"            {finding.code}{where}: {finding.says}")
    lines += _times(transition.gate)
    lines += limit_lines(transition.gate)
    decision = transition.decision
    if decision.answer is Answer.PENDING:
        lines.append("  decision  waits for your decision")
    else:
        lines.append(f"  decision  {decision.answer} by {decision.by}: {decision.reason}")
    return visible("\n".join(lines))


def _backward(step: BackwardStep) -> list[str]:
    """How the step was found: its mechanism, and what the gate said in both directions."""
    text = "the very text" if step.same_text else "another text"
    ratio = "" if step.ratio is None else f", {step.ratio:.3f}x the speed of what there was"
    back = f"{step.roundtrip} ({text}{ratio})" if step.forward else "the edit was not made"
    return [
        f"  mechanism {step.category} at {step.locus}",
        f"  without   {step.predecessor}",
        f"  put back  {back}",
        f"  kernels   {step.before[:12]} without it, {step.after[:12]} with it",
    ]


def _policy(plan: Plan) -> list[str]:
    """How the policy came to it, and which cards it placed first."""
    if plan.policy is None:
        return []
    from workbench.skills.policy import told

    ranking = plan.policy.ranking[:_RANKED]
    return [
        *(f"  policy    {line}" for line in told(plan.policy)),
        *(f"  rank {place:<4} {line}" for place, line in enumerate(ranking, start=1)),
    ]


def _title(transition: Transition) -> str:
    if transition.plan is None:
        return f"seed ({transition.origin})"
    return f"{transition.plan.title}, from v{transition.parent}"


def _check(label: str, check: Check, mark: dict[Truth, str]) -> str:
    return f"  {label} {mark[check.truth]} {check.says}  [{check.because}]"


def _times(gate: GateReport) -> list[str]:
    lines = []
    if gate.time is not None:
        lines.append(f"  time      {time_words(gate.time)}")
    if gate.time is not None and gate.limit is not None:
        lines.append(f"  reached   {gate.limit.words(gate.time)}: {gate.limit.says}")
    for label, speed in (
        ("against parent", gate.speed),
        ("against seed", gate.versus_seed),
        ("against reference", gate.versus_reference),
    ):
        if speed is not None:
            lines.append(f"  {label}: {ratio_words(speed)}")
    if gate.baselines is not None:
        lines.append(f"  to beat   {gate.baselines.words()}")
    return lines


def ratio_words(speed: Speed) -> str:
    """`1.332x modeled`, `1.320x [1.310, 1.330] measured`."""
    number, _, rest = speed.says().partition(" ")
    return f"{number}x {rest}"


def time_words(time: Time) -> str:
    """`38.0 us [37.9, 38.2] measured for NVIDIA H200`, `38.0 us modeled for sm90 (NVIDIA H200)`."""
    interval = ""
    if time.low is not None and time.high is not None:
        interval = f" [{time.low:.1f}, {time.high:.1f}]"
    device = time.device
    if time.kind is Kind.MODELED and device in TARGETS:
        device = f"{device} ({TARGETS[device].device})"
    return f"{time.microseconds:.1f} us{interval} {time.kind} for {device}"


def final_report(client: "SessionClient", *, ascii_only: bool = False) -> str:
    """What a run in the foreground ends with."""
    snapshot = client.snapshot()
    lines = ["", graph_text(snapshot, ascii_only=ascii_only), ""]
    for word in ("accepted", "rejected", "unproven", "vetoed"):
        lines += _reasons(client, snapshot, word)
    if snapshot.best is not None:
        lines += _best(client, snapshot, client.transition(snapshot.best))
    lines += [
        *_size(snapshot),
        f"ended     {snapshot.state}: {snapshot.says}",
        f"spent     {_spent(snapshot)}",
        *(f"          {role}: {says}" for role, says in client.model_costs().items()),
        *_going_on(snapshot),
        f"look      workbench attach {spoken(Path(snapshot.path))}",
        f"          git -C {shlex.quote(snapshot.path)} log --graph --all",
    ]
    return "\n".join(lines)


def _going_on(snapshot: Snapshot) -> list[str]:
    """The whole command for a run that ended before its limits and its goal.

    A refused seed is refused again; one that could not be judged here may pass another time.
    """
    refused = all(v.verdict is Verdict.REJECTED for v in snapshot.versions)
    if refused and snapshot.versions and snapshot.state is State.FAILED:
        return []
    if snapshot.kind != "run" or snapshot.state not in {State.FAILED, State.LOST, State.STOPPED}:
        return []
    return [f"go on     workbench resume {spoken(Path(snapshot.path))} --headless"]


def _reasons(client: "SessionClient", snapshot: Snapshot, word: str) -> list[str]:
    """Versions of which that became, with the reason; what no one could judge is not `rejected`."""
    lines = []
    for version in snapshot.versions:
        unproven = version.answer is Answer.REJECTED and version.verdict is Verdict.UNPROVEN
        if ("unproven" if unproven else version.answer.value) == word:
            why = _why_of(client, version.number)
            lines.append(f"  v{version.number:<4} {version.title}: {why}")
    return [word, *lines, ""] if lines else []


def _why_of(client: "SessionClient", number: int) -> str:
    try:
        return _why(client.transition(number))
    except WorkbenchError as fault:
        return fault.what


def _why(record: Transition) -> str:
    gate = record.gate
    if record.decision.by == "person":
        return f"{record.decision.answer} by person, {record.decision.reason or 'no reason given'}"
    if record.decision.answer is Answer.ACCEPTED:
        return gate.says
    return f"{gate.says} [{gate.code}]"


def _best(client: "SessionClient", snapshot: Snapshot, best: Transition) -> list[str]:
    place = f"{snapshot.path}/kernel.py"
    if snapshot.best != snapshot.incumbent:
        place = f"git -C {shlex.quote(snapshot.path)} show best:kernel.py"
    lines = [f"best      v{best.number}: {place}"]
    if best.gate.time is not None:
        lines.append(f"time      {time_words(best.gate.time)}")
    if best.gate.time is not None and best.gate.limit is not None:
        lines.append(f"reached   {best.gate.limit.words(best.gate.time)}")
    seed = client.transition(snapshot.versions[0].number)
    if seed.gate.time is not None and seed.number != best.number:
        lines.append(f"seed      {time_words(seed.gate.time)}")
    if best.gate.reference is not None:
        friendly = ", each of eager's operators at its roofline"
        note = friendly if best.gate.reference.kind is Kind.MODELED else ""
        lines.append(f"reference {time_words(best.gate.reference)}{note}")
    if best.gate.versus_seed is not None:
        lines.append(f"speed     {ratio_words(best.gate.versus_seed)} against the seed")
    lines += _bar(best.gate.baselines)
    if best.gate.versus_reference is not None:
        label = "" if best.gate.versus_seed is not None else "speed"
        lines.append(f"{label:<10}{ratio_words(best.gate.versus_reference)} against the reference")
    return lines
