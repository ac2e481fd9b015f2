"""The head of the review: what the gate found, how fast it is, what is wrong, and why."""

from typing import ClassVar

from textual.binding import BindingType
from textual.content import Content

from workbench.engine.telling import evidence_line
from workbench.gate.records import NO_CODE_RAN, GateReport, Outcome, StageReport
from workbench.measure.records import Speed
from workbench.session.records import Answer, Transition
from workbench.skills.records import Truth
from workbench.tui.draw import Part, cells, duration, fit, line, wrapped
from workbench.tui.keys import Place, bindings
from workbench.tui.look import Look
from workbench.tui.metrics import baseline
from workbench.tui.panes.base import Scroller
from workbench.tui.panes.card import sign
from workbench.tui.scene import Scene, failing

_MARKS = {
    Outcome.PASSED: "✓",
    Outcome.FAILED: "✗",
    Outcome.UNPROVEN: "?",
    Outcome.SKIPPED: "·",
}


class Facts(Scroller):
    """Facts about a version; it scrolls beyond its share of the screen."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Place.PANE)
    refusal: str = ""
    """Why the last answer was not taken."""

    def window(self, lines: list[Content], height: int) -> list[Content]:
        """The lines in view; a last one says how to see the rest."""
        shown = super().window(lines, height)
        self.can_focus = self.below > 0 or self.top > 0
        if self.below and self.scene is not None:
            more = f"… {self.below + 1} more lines: tab, then j"
            shown[-1] = line((more, self.scene.look.faint))
        return shown

    def draw(self, scene: Scene, width: int, height: int) -> list[Content]:  # noqa: ARG002 -- all panes share one signature
        """The lines from the version's record."""
        refused = [
            line((f"✗ {text}", f"bold {scene.look.bad}"))
            for text in wrapped(self.refusal, width - 2)
        ]
        return [*(facts(scene, scene.record, width) if scene.record else []), *refused]

    def lines_for(self, scene: Scene, width: int) -> int:
        """How many lines it needs at that width."""
        return len(self.draw(scene, width, 0))


def facts(scene: Scene, record: Transition, width: int) -> list[Content]:
    """Gate, speed, what is wrong, reason, and the answer where there is one already."""
    look, gate = scene.look, record.gate
    lines = [_gate_line(gate, look, width), _speed_line(scene, record, look, width)]
    lines += _wrong(record, look, width)
    if record.plan is not None:
        lines += _paragraph("why", record.plan.reason or record.plan.intent, look, width)
    if record.decision.answer is not Answer.PENDING:
        decision = record.decision
        said = f"{decision.answer} by {decision.by}" + (
            f": {decision.reason}" if decision.reason else ""
        )
        lines += _paragraph("answer", said, look, width)
    return lines + _paragraph("gate", _conduct(gate), look, width)


def _conduct(gate: GateReport) -> str:
    """How the candidate was held, and the seed with which `workbench gate` repeats its inputs."""
    held = [report.isolation for report in gate.stages if report.outcome is not Outcome.SKIPPED]
    held = list(dict.fromkeys(name for name in held if name and name != NO_CODE_RAN))
    seed = f"; --seed {gate.replay_seed} repeats its inputs" if gate.replay_seed else ""
    return f"isolation {', '.join(held) or NO_CODE_RAN}{seed}"


def _gate_line(gate: GateReport, look: Look, width: int) -> Content:
    full: list[Part] = []
    short: list[Part] = []
    for report in gate.stages:
        mark = (f"{_MARKS[report.outcome]} ", _stage_style(report, look))
        took = f" {duration(report.seconds)}" if report.outcome is not Outcome.SKIPPED else ""
        full += [mark, report.stage, (took + "   ", look.muted)]
        short += [mark, f"{report.stage}  "]
    found = gate.report(gate.stage)
    parts = full if cells(full) <= width else short
    room = width - cells(parts)
    if found is not None and found.says and room > 20:
        parts = [*parts, (fit(found.says, room), look.muted)]
    return line(*parts)


def _stage_style(report: StageReport, look: Look) -> str:
    return {
        Outcome.PASSED: look.good,
        Outcome.FAILED: f"bold {look.bad}",
        Outcome.UNPROVEN: look.warn,
        Outcome.SKIPPED: look.faint,
    }[report.outcome]


def _speed_line(scene: Scene, record: Transition, look: Look, width: int) -> Content:
    gate, version = record.gate, scene.version
    speed = gate.speed or (version.speed_vs_parent if version else None)
    if speed is None:
        return line(("speed ", look.muted), ("not timed", look.faint))
    style = look.good if speed.ratio >= 1 else look.bad
    parts: list[Part] = [
        (f"{speed.ratio:.3f}x", f"bold {style}"),
        (f" {certainty(speed)}", look.muted),
    ]
    before = baseline(gate, scene.parent.gate if scene.parent else None)
    if gate.time is not None and before is not None:
        was, now = (_us(time.microseconds) for time in (before, gate.time))
        parts.append((f"  {was} → {now} us", look.muted))
    if version is not None and version.speed_vs_seed is not None:
        seed = f"  {version.speed_vs_seed.ratio:.2f}x the seed"
        if cells(parts) + len(seed) <= width:
            parts.append((seed, look.muted))
    return line(*parts)


def _us(us: float) -> str:
    """Four digits, so that a gain of one percent is seen; never an exponent."""
    return f"{us:.4g}" if us < 9999.5 else f"{us:.0f}"


def certainty(speed: Speed) -> str:
    """`measured, 95 % 1.036 to 1.050, 200 pairs`; a model has no interval and says so."""
    if speed.low is None or speed.high is None:
        return f"{speed.kind}, no interval"
    level = f"{speed.confidence:.0%} " if speed.confidence is not None else ""
    pairs = f", {speed.pairs} pairs" if speed.pairs else ""
    return f"{speed.kind}, {level}{speed.low:.3f} to {speed.high:.3f}{pairs}"


def _wrong(record: Transition, look: Look, width: int) -> list[Content]:
    """Conditions that are not met or not known, risks that are, and what the stages found."""
    lines: list[Content] = []
    plan = record.plan
    if plan is not None:
        for check in plan.checks:
            if check.truth is not Truth.YES:
                text = f"{check.says} ({check.because})" if check.because else check.says
                lines += _marked(sign(check.truth, look), text, width)
        for risk in plan.risks:
            if risk.truth is Truth.YES:
                text = f"risk: {risk.says}"
                lines += _marked(("!", f"bold {look.warn}"), text, width)
    for report in record.gate.stages:
        mark = ("✗", f"bold {look.bad}") if failing(report) else ("!", look.warn)
        for finding in report.findings:
            where = f"line {finding.line}: " if finding.line is not None else ""
            lines += _marked(mark, f"{where}{finding.says} [{finding.code}]", width)
            if failing(report) and finding.evidence:
                known = evidence_line(finding)
                lines += [line(("  " + more, look.muted)) for more in wrapped(known, width - 2)]
    return lines


def _marked(mark: tuple[str, str], text: str, width: int) -> list[Content]:
    first, *rest = wrapped(text, width - 2) or [""]
    return [line(mark, f" {first}"), *(line(f"  {more}") for more in rest)]


def _paragraph(label: str, text: str, look: Look, width: int) -> list[Content]:
    lines = wrapped(text, width - 8)
    return [
        line((f"{label if index == 0 else '':<8}", look.muted), (part, "italic"))
        for index, part in enumerate(lines)
    ]
